// SPDX-License-Identifier: Apache-2.0
// The other process: import_child <mode> <device> <bytes> <seed>, commands and descriptors on descriptor 3.
//   rewrite  open one descriptor, expect pattern(bytes, seed), write pattern(bytes, seed + 1), say "done"
//   follow   open one descriptor, say "open", then as rewrite
//   twice    the same with two descriptors of one buffer: read through one, write through the other
//   hold     open one descriptor, say "open", keep it until the other end closes
//   lend     open one descriptor, say "lends" and send an export of it on; or say why there is none, and exit with 0
//   bury     send the files of one descriptor, with both ends, over a socket pair of its own, say "buried", and wait
//   late     as rewrite, but between receiving and opening wait for a line: the exporter may be done by then
// Whatever fails is said in the line, and the exit code is 1.

#include <sys/socket.h>

#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bytes.hpp"
#include "crash.hpp"
#include "spawn.hpp"
#include "weir/device.hpp"
#include "weir/ipc.hpp"
#if WEIR_HAS_VULKAN
#include "weir/vulkan.hpp"
#endif

namespace {

using namespace weir;
using namespace weir::test;

constexpr int channel = Child::socket_in_child;

Buffer receive_and_open(const Stream& stream, bool late = false) {
  ipc::Descriptor descriptor = ipc::receive(channel, std::chrono::seconds{30});
  if (late) (void)read_line(channel);
  return ipc::open(std::move(descriptor), stream);
}

// Nobody can take out what is there: only the kernel's collector closes it.
std::string bury() {
  const ipc::Descriptor descriptor = ipc::receive(channel, std::chrono::seconds{30});
  const auto [one, other] = socket_pair(SOCK_STREAM);
  std::vector<spi::UniqueFd> all;
  for (const spi::UniqueFd& file : descriptor.fds()) all.push_back(file.duplicate());
  all.push_back(one.duplicate());
  all.push_back(other.duplicate());
  ipc::send(one.get(), {descriptor.bytes(), std::move(all)});
  write_line(channel, "buried");
  (void)read_line(channel);
  return "closed";
}

std::string run(const std::string& mode, const Stream& stream, std::size_t bytes, std::uint32_t seed) {
  if (mode == "bury") return bury();
  Buffer reader = receive_and_open(stream, mode == "late");
  if (mode == "follow") write_line(channel, "open");
  if (mode == "hold") {
    write_line(channel, "open");
    (void)read_line(channel);
    return "closed";
  }
  if (mode == "lend") {
    std::optional<ipc::Descriptor> mine;
    try {
      mine = reader.ipc_descriptor(stream);
    } catch (const Error& error) {
      if (error.code() != Errc::unsupported) throw;
      write_line(channel, error.what());
      return "closed";
    }
    write_line(channel, "lends");
    ipc::send(channel, *mine);
    return "done";
  }
  Buffer writer = mode == "twice" ? receive_and_open(stream) : reader.share();
  if (reader.size() != bytes) return "size is " + std::to_string(reader.size());
  const auto same = same_bytes(read(reader, stream), pattern(bytes, seed));
  if (!same) return std::string("before: ") + same.message();
  write(writer, pattern(bytes, seed + 1), stream);
  const auto changed = same_bytes(read(reader, stream), pattern(bytes, seed + 1));
  if (!changed) return std::string("after: ") + changed.message();
  return "done";
}

bool validation_is_silent() {
#if WEIR_HAS_VULKAN
  return vulkan::validation_errors() == 0;
#else
  return true;
#endif
}

}  // namespace

int main(int argc, char** argv) {
  print_crashes();
  if (argc != 5) return 2;
  std::string said;
  try {
    const Stream stream(device(argv[2]));
    said = run(argv[1], stream, std::stoul(argv[3]), static_cast<std::uint32_t>(std::stoul(argv[4])));
    if (!validation_is_silent()) said = "Vulkan validation found errors";
  } catch (const std::exception& error) {
    said = std::string("throws: ") + error.what();
  }
  try {
    write_line(channel, said);
  } catch (const std::exception&) {
    return said == "closed" ? 0 : 1;
  }
  return said == "done" || said == "closed" ? 0 : 1;
}
