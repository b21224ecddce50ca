// SPDX-License-Identifier: Apache-2.0
#include "mapping.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace judge {
namespace {

// Never touched pages cost nothing.
std::byte* reserve(Bytes bytes) {
  void* found = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(found);
}

/// Call `function(begin, end)` for the parts of [begin, end) that the host wrote since bytes last went over.
template <class F>
void written_by_host(const Mapping& mapping, Bytes begin, Bytes end, F&& function) {
  constexpr Bytes block = 4096;
  Bytes run = end;  // where the run that is open began; none if `end`
  for (Bytes at = begin; at < end;) {
    const Bytes size = std::min(block, end - at);
    const bool same = std::memcmp(mapping.host + at, mapping.common + at, size) == 0;
    for (Bytes i = 0; i < size && (!same || (run != end && i == 0)); ++i) {
      const bool differs = mapping.host[at + i] != mapping.common[at + i];
      if (differs && run == end) run = at + i;
      if (!differs && run != end) {
        function(run, at + i);
        run = end;
      }
    }
    at += size;
  }
  if (run != end) function(run, end);
}

// Each side is read once: a later command may be writing meanwhile, and what was carried over is the same on both.
void copy_to_device(Mapping& mapping, Bytes begin, Bytes end) {
  std::memcpy(mapping.common + begin, mapping.host + begin, end - begin);
  std::memcpy(mapping.device + begin, mapping.common + begin, end - begin);
}

void copy_to_host(Mapping& mapping, Bytes begin, Bytes end) {
  std::memcpy(mapping.common + begin, mapping.device + begin, end - begin);
  std::memcpy(mapping.host + begin, mapping.common + begin, end - begin);
}

/// The host wrote those bytes: was it allowed to?
void judge_host_write(const Memory& memory, Bytes begin, Bytes end, const char* call) {
  const auto& host = world().host;
  memory.payload->cells.look(begin, end, [&](const Cell& cell, Bytes from, Bytes to) {
    const auto tell = [&](const Access& access, const char* verb, const char* missing) {
      violation(call, "the host wrote " + bytes(from, to, memory) + ", which " + describe(access) + verb + missing);
    };
    if (cell.write.point.exists()) {
      if (!host.over.covers(cell.write.point))
        tell(cell.write, " writes", ", before it knew that this was over");
      else if (!host.written.covers(cell.write.point))
        tell(cell.write, " wrote", ": no barrier lets the host write there afterwards");
    }
    for (const Access& read : cell.reads) {
      if (!host.over.covers(read.point)) tell(read, " reads", ", before it knew that this was over");
    }
  });
}

/// Where the device has no bytes yet that mean anything, those of the host are the first.
void begin_with_host(Mapping& mapping, Bytes begin, Bytes end) {
  mapping.begun.change(begin, end, [](bool&) {});  // now something is known of all
  mapping.begun.look(begin, end, [&](bool begun, Bytes from, Bytes to) {
    if (!begun) copy_to_device(mapping, from, to);
  });
  mapping.begun.set(begin, end, true);
}

void push(Memory& memory, Bytes begin, Bytes end, const char* call) {
  written_by_host(*memory.mapping, begin, end, [&](Bytes from, Bytes to) {
    judge_host_write(memory, from, to, call);
    copy_to_device(*memory.mapping, from, to);
  });
  begin_with_host(*memory.mapping, begin, end);
}

/// What the host did not flush is lost where it differs.
void judge_unflushed(const Memory& memory, Bytes begin, Bytes end, const char* call, const char* why) {
  written_by_host(*memory.mapping, begin, end, [&](Bytes from, Bytes to) {
    violation(call, "the host wrote " + bytes(from, to, memory) + " and did not flush them before " + why);
  });
}

void arrive(Memory& memory, const Mapping::Pending& part) {
  Mapping& mapping = *memory.mapping;
  if (!memory.coherent) return mapping.arrived.set(part.begin, part.end, true);
  written_by_host(mapping, part.begin, part.end, [&](Bytes from, Bytes to) {
    violation(part.write.call,
              "the host wrote " + bytes(from, to, memory) + " while " + describe(part.write) + " wrote them");
  });
  copy_to_host(mapping, part.begin, part.end);
}

}  // namespace

Mapping::Mapping(std::byte* driver, Bytes all) : device(driver), host(reserve(all)), common(reserve(all)), size(all) {}

Mapping::~Mapping() {
  munmap(host, size);
  munmap(common, size);
}

void host_to_device(Memory& memory, Bytes begin, Bytes end, const char* call) {
  if (!memory.mapping) return;
  if (memory.coherent)
    push(memory, begin, end, call);
  else
    judge_unflushed(memory, begin, end, call, "the device touches them");
}

void flush(Memory& memory, Bytes begin, Bytes end) {
  Mapping& mapping = *memory.mapping;
  push(memory, begin, end, "vkFlushMappedMemoryRanges");
  for (Bytes at = begin; at < end; at += atom) {
    const Bytes rest = std::min(at + atom, end);
    bool stale = false;
    mapping.arrived.look(at, rest, [&](bool, Bytes, Bytes) { stale = true; });
    if (stale) copy_to_device(mapping, at, rest);
    mapping.arrived.forget(at, rest);
  }
}

void invalidate(Memory& memory, Bytes begin, Bytes end) {
  Mapping& mapping = *memory.mapping;
  judge_unflushed(memory, begin, end, "vkInvalidateMappedMemoryRanges", "they were invalidated");
  mapping.arrived.look(begin, end, [&](bool, Bytes from, Bytes to) { copy_to_host(mapping, from, to); });
  mapping.arrived.forget(begin, end);
}

void device_wrote(const std::shared_ptr<Memory>& memory, Bytes begin, Bytes end, const Access& write) {
  if (!memory->mapping) return;
  memory->mapping->arrived.forget(begin, end);
  memory->mapping->pending.push_back({begin, end, write});
  world().written.insert(memory);
}

void device_to_host() {
  const auto& host = world().host;
  std::erase_if(world().written, [&](const std::shared_ptr<Memory>& memory) {
    if (!memory->mapping) return true;
    auto& pending = memory->mapping->pending;
    std::erase_if(pending, [&](const Mapping::Pending& part) {
      if (!host.read.covers(part.write.point)) return false;
      arrive(*memory, part);
      return true;
    });
    return pending.empty();
  });
}

}  // namespace judge
