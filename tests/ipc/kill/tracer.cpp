// SPDX-License-Identifier: Apache-2.0
#include "tracer.hpp"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <cerrno>
#include <exception>
#include <filesystem>
#include <string>
#include <system_error>

namespace weir::test {
namespace {

constexpr int system_call_stop = SIGTRAP | 0x80;  // PTRACE_O_TRACESYSGOOD

// Return whether the thread is there. The data of a request is a number or an address.
bool request(__ptrace_request what, pid_t thread, std::uintptr_t data) {
  if (ptrace(what, thread, nullptr, reinterpret_cast<void*>(data)) == 0) return true;
  if (errno == ESRCH) return false;
  throw std::system_error(errno, std::generic_category(), "ptrace");
}

}  // namespace

Tracer::Tracer(pid_t process, std::uint64_t kill_before) : process_(process), kill_before_(kill_before) {
  thread_ = std::thread([this] {
    try {
      attach();
    } catch (...) {
      attached_.set_exception(std::current_exception());
      return;
    }
    attached_.set_value();
    run();
  });
  try {
    attached_.get_future().get();
  } catch (...) {
    thread_.join();
    throw;
  }
}

Tracer::~Tracer() { (void)finish(); }

std::uint64_t Tracer::finish() {
  if (thread_.joinable()) thread_.join();
  return calls_;
}

// A thread is first stopped, because only a stopped one can be told to stop at its calls.
void Tracer::attach() {
  constexpr std::uintptr_t options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(process_) + "/task")) {
    const pid_t thread = std::stoi(entry.path().filename().string());
    if (request(PTRACE_SEIZE, thread, options) && request(PTRACE_INTERRUPT, thread, 0))
      threads_.emplace(thread, Where::in_an_earlier_call);
  }
}

void Tracer::run() {
  constexpr int mine = __WALL | __WNOTHREAD;  // what this thread traces, and nobody's children
  for (;;) {
    siginfo_t info{};
    if (waitid(P_ALL, 0, &info, WSTOPPED | WEXITED | WNOWAIT | mine) != 0) {
      if (errno == EINTR) continue;
      return;
    }
    const pid_t thread = info.si_pid;
    const bool ended = info.si_code != CLD_TRAPPED && info.si_code != CLD_STOPPED;
    if (ended && thread == process_) return;
    (void)waitid(P_PID, static_cast<id_t>(thread), &info, (ended ? WEXITED : WSTOPPED) | mine);
    if (ended) {
      threads_.erase(thread);
    } else {
      stopped(thread, info.si_status);
    }
  }
}

void Tracer::stopped(pid_t thread, int status) {
  std::uintptr_t signal = 0;
  if (status == system_call_stop) {
    Where& where = threads_[thread];
    if (where == Where::outside && ++calls_ == kill_before_) {
      (void)::kill(process_, SIGKILL);
      return;
    }
    where = where == Where::outside || where == Where::in_an_earlier_call ? Where::inside : Where::outside;
  } else if (status >> 8 == 0 && status != SIGTRAP) {
    signal = static_cast<std::uintptr_t>(status);
  } else {
    threads_.try_emplace(thread, Where::outside);  // a new one
  }
  (void)request(PTRACE_SYSCALL, thread, signal);
}

}  // namespace weir::test
