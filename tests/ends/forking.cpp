// SPDX-License-Identifier: Apache-2.0
#include "forking.hpp"

#include <link.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

namespace weir::test {

pid_t fork_child(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child != 0) return child;
  alarm(20);
  try {
    body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "in the child: %s\n", error.what());
    _exit(1);
  }
  _exit(0);
}

void join_child(pid_t child) {
  int status = 0;
  const bool joined = waitpid(child, &status, 0) == child;
  if (joined && WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  std::fprintf(stderr, "a child ended with status %d%s\n", status,
               WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? ": it hung" : "");
  _exit(1);
}

void require(bool condition, const char* what, const char* file, int line) {
  if (condition) return;
  std::fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
  _exit(1);
}

void require_soon(const char* what, const std::function<bool()>& condition, const char* file, int line) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  bool holds = condition();
  for (; !holds && std::chrono::steady_clock::now() < deadline; holds = condition()) std::this_thread::yield();
  require(holds, what, file, line);
}

void require_error(const char* what, Errc condition, const char* text, const std::function<void()>& action) {
  std::string got = "nothing was thrown";
  try {
    action();
  } catch (const Error& error) {
    if (error.code() == condition && std::strstr(error.what(), text)) return;
    got = error.what();
  } catch (const std::exception& error) {
    got = error.what();
  }
  std::fprintf(stderr, "%s: expected an error with \"%s\", got: %s\n", what, text, got.c_str());
  _exit(1);
}

bool holds(const Buffer& buffer, std::byte value) {
  const std::byte* data = buffer.host_data();
  return data && std::all_of(data, data + buffer.size(), [&](std::byte byte) { return byte == value; });
}

void use_host() {
  const Device device = host_device();
  for (const ResourcePtr& resource : resources_of(device)) {
    const Stream one(device), two(device);
    Buffer from = resource->allocate(small, one), to = resource->allocate(small, two);
    from.fill(std::byte{0x2a}, one);
    two.wait(one.record());
    to.copy_from(from, two);
    bool called = false;
    two.call([&] { called = true; });
    two.synchronize();
    require(called && holds(to, std::byte{0x2a}), "host work is done");
    from.close(two);
    to.close();
    resource->trim(0);
    require(resource->stats().reserved == 0, "host memory goes back");
  }
}

namespace {

template <class F>
void for_each_library(F function) {
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        (*static_cast<F*>(data))(*info);
        return 0;
      },
      &function);
}

}  // namespace

Libraries::Libraries() {
  for_each_library([this](const dl_phdr_info& info) { known_.emplace_back(info.dlpi_name); });
}

void Libraries::forbid_new_ones() const {
  std::vector<std::pair<std::size_t, std::size_t>> ranges;  // first, because they are described in what gets forbidden
  const auto page = static_cast<std::size_t>(getpagesize());
  for_each_library([&](const dl_phdr_info& info) {
    if (std::find(known_.begin(), known_.end(), info.dlpi_name) != known_.end()) return;
    for (std::size_t i = 0; i < info.dlpi_phnum; ++i) {
      const auto& header = info.dlpi_phdr[i];
      if (header.p_type != PT_LOAD || !(header.p_flags & PF_X)) continue;
      const std::size_t begin = (info.dlpi_addr + header.p_vaddr) & ~(page - 1);
      const std::size_t end = (info.dlpi_addr + header.p_vaddr + header.p_memsz + page - 1) & ~(page - 1);
      ranges.emplace_back(begin, end);
    }
  });
  require(!ranges.empty(), "a driver is loaded");
  for (const auto& [begin, end] : ranges) {
    require(mprotect(reinterpret_cast<void*>(begin), end - begin, PROT_NONE) == 0, "mprotect");
  }
}

}  // namespace weir::test
