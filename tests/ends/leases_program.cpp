// SPDX-License-Identifier: Apache-2.0
// Closes a file that is not its own, in which the ends of leases are told. What is leased then stays so, for ever:
// hence a process of its own.
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "fds.hpp"
#include "things.hpp"
#include "weir/error.hpp"
#include "weir/ipc.hpp"
#include "weir/pool.hpp"

// What stays leased is a leak, and meant.
extern "C" int __lsan_is_turned_off() { return 1; }  // NOLINT(bugprone-reserved-identifier)

namespace weir::test {
namespace {

constexpr std::size_t bytes = std::size_t{1} << 20;

void must(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "not so: %s\n", what);
  std::_Exit(1);
}

int close_epolls() {
  std::vector<int> found;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(file, gone).string() == "anon_inode:[eventpoll]") {
      found.push_back(std::stoi(file.path().filename()));
    }
  }
  // By the system call: ThreadSanitizer takes close() beside epoll_wait() for the mistake that it is.
  for (const int file : found) (void)::syscall(SYS_close, file);
  return static_cast<int>(found.size());
}

std::promise<std::string>& reported() {
  static auto& promise = *new std::promise<std::string>;
  return promise;
}

ipc::Descriptor leased(Pool& pool, const Stream& stream) { return pool.allocate(bytes, stream).ipc_descriptor(stream); }

std::size_t live(Pool& pool) {
  settle_files();
  pool.trim(0);  // asks for the ends of leases
  return pool.stats().live_buffers;
}

void run() {
  set_failure_sink([](const Failure& failure) noexcept { reported().set_value(std::string(failure.where)); });
  const Stream stream(host_device());
  const auto pool = make_pool(host_device(), {.segment_bytes = bytes, .exportable = true});
  std::optional<ipc::Descriptor> first = leased(*pool, stream), second = leased(*pool, stream);
  must(live(*pool) == 2, "both are leased");
  must(close_epolls() == 1, "one file tells the ends of all leases");
  first.reset();  // the thread wakes now, if it has not yet, and looks at the file again
  const auto said = reported().get_future().get();
  must(said == "lease: epoll_wait", said.c_str());
  second.reset();
  const auto kept = live(*pool);
  must(kept == 1 || kept == 2, "nobody hears of the second's end, so it stays leased");
  const Buffer other = pool->allocate(2 * bytes, stream);
  first = leased(*pool, stream);
  must(live(*pool) == kept + 2, "later leases hold");
  first.reset();
  must(live(*pool) == kept + 1, "and end");
}

}  // namespace
}  // namespace weir::test

int main() {
  weir::test::run();
  weir::test::say_done();
}
