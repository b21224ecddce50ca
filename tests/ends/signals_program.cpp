// SPDX-License-Identifier: Apache-2.0
// Which signals the library's threads can take: signals_program <device>.
#include <pthread.h>

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>

#include "base/file_closer.hpp"
#include "busy_pipe.hpp"
#include "folder.hpp"
#include "forking.hpp"
#include "weir/channel.hpp"
#include "weir/ipc.hpp"
#include "weir/pool.hpp"
#include "weir/server.hpp"

// What is held for ever keeps everything alive.
extern "C" int __lsan_is_turned_off() { return 1; }  // NOLINT(bugprone-reserved-identifier)

namespace weir::test {
namespace {

using Mask = std::uint64_t;  // a bit for each signal, the lowest for signal 1

constexpr Mask bit(int signal) { return Mask{1} << static_cast<unsigned>(signal - 1); }

constexpr Mask open_ones = bit(SIGSEGV) | bit(SIGBUS) | bit(SIGFPE) | bit(SIGILL) | bit(SIGTRAP) | bit(SIGSYS) |
                           bit(SIGABRT) | bit(SIGPROF) | bit(SIGKILL) | bit(SIGSTOP) | bit(32) |
                           bit(33);  // the last two are the C library's own

/// What each thread of the library that has its name by now blocks.
std::map<std::string, Mask> threads() {
  std::map<std::string, Mask> found;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    std::string name;
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("Name:\t")) name = line.substr(6);
      if (line.starts_with("SigBlk:\t") && name.starts_with("weir "))
        found.emplace(name, std::stoull(line.substr(8), nullptr, 16));
    }
  }
  return found;
}

Mask own_mask() {
  sigset_t set;
  (void)pthread_sigmask(SIG_BLOCK, nullptr, &set);
  Mask mask = 0;
  for (int signal = 1; signal < 64; ++signal) {
    if (sigismember(&set, signal) == 1) mask |= bit(signal);
  }
  return mask;
}

void all_threads(const Device& device) {
  sigset_t own;
  sigemptyset(&own);
  sigaddset(&own, SIGUSR1);
  (void)pthread_sigmask(SIG_SETMASK, &own, nullptr);

  const Folder folder;
  BlockingFile stuck;
  detail::close_apart(stuck.take());
  const ipc::Server server(folder / "server");
  const Stream stream(host_device());
  Buffer buffer = make_pool(host_device(), {.exportable = true})->allocate(small, stream);
  const ipc::Descriptor descriptor = buffer.ipc_descriptor(stream);
  auto [here, there] = ipc::Channel::make_sockets();
  ipc::Channel sender(std::move(here)), receiver(std::move(there));
  sender.send(buffer, stream);
  const ipc::Parcel held = receiver.receive(stream);
  Things things(device);
  things.hold(Latch().event);

  std::map<std::string, Mask> found;
  for (const char* name : {"weir files", "weir names", "weir leases", "weir channels", "weir worker", "weir watcher"}) {
    require_soon(name, [&] {
      found.merge(threads());
      return found.contains(name);
    });
  }
  for (const auto& [name, blocked] : found) require(blocked == ~open_ones, name.c_str());
  require(own_mask() == bit(SIGUSR1), "the program's own thread blocks what it blocked before");
}

}  // namespace
}  // namespace weir::test

int main(int count, char** arguments) {
  if (count != 2) return 2;
  weir::test::all_threads(weir::test::device_named(arguments[1]));
  weir::test::say_done();
  std::_Exit(0);
}
