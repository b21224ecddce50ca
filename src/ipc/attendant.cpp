// SPDX-License-Identifier: Apache-2.0
#include "ipc/attendant.hpp"

#include <array>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include "base/forks.hpp"
#include "base/library_thread.hpp"
#include "base/linger.hpp"
#include "base/start_thread.hpp"
#include "weir/error.hpp"
#include "weir/spi/sync.hpp"

namespace weir::detail {

void Attendant::fork(spi::ForkMoment moment) noexcept {
  if (moment == spi::ForkMoment::before) return mutex_.lock();
  if (moment == spi::ForkMoment::child) {
    new (&answered_) std::condition_variable;  // the old one counts waiters that exist only in the parent
    leave_to_parent();
    files_.reset();
    end();
  }
  mutex_.unlock();
}

void Attendant::need_thread() {
  if (files_) return;
  FileSet files = FileSet::make(texts_.purpose);
  try {
    std::thread thread = start_thread([this] { run(); });  // it begins once it gets the lock
    thread_ = thread.get_id();
    thread.detach();
  } catch (const std::system_error& error) {
    throw Error(error.code(), std::string(texts_.purpose) + ": " + texts_.no_thread + ": " + error.what());
  }
  files_ = std::move(files);
}

bool Attendant::is_elsewhere() const noexcept { return files_ && thread_ != std::this_thread::get_id(); }

bool Attendant::await_round(Lock& lock) {
  const auto mine = ++asked_;
  if (!files_.ring()) return false;
  answered_.wait(lock, [&] { return answer_ >= mine; });
  return true;
}

void Attendant::run() noexcept {
  sync::name_thread(texts_.thread);
  std::array<epoll_event, 64> room;
  const int linger_now = static_cast<int>(linger.load().count());  // milliseconds
  constexpr int pause = 10;  // milliseconds
  const LibraryThread mark;
  const auto process = fork_generation;
  Lock lock(mutex_);
  for (;;) {
    const auto asked = asked_;  // read before the kernel is asked
    const bool round = asked != answer_;
    const bool hurries = round || is_due(), lingers = !hurries && is_idle();
    const int most = hurries ? 0 : is_late() ? pause : lingers ? linger_now : -1;
    busy_ = false;
    lock.unlock();
    const auto ready = files_.wait(room, most);
    lock.lock();
    busy_ = true;
    if (ready.error != 0) {
      files_.leak();
      end();
      give_up(lock);
      if (lock.owns_lock()) lock.unlock();
      return report({{ready.error, std::generic_category()}, texts_.wait, texts_.lost});
    }
    serve(ready.events, round, lock);
    if (fork_generation != process) return;  // the work called fork(), and this is the child
    const bool answers = round && (ready.all || sees_all());
    if (answers) {
      answer_ = asked;
      answered_.notify_all();
    }
    if (is_idle() && asked_ == answer_ && (answers || (lingers && ready.nothing()))) break;
  }
  files_.reset();
  end();
}

void Attendant::end() noexcept {
  thread_ = {};
  busy_ = false;
  answer_ = asked_;
  answered_.notify_all();
}

}  // namespace weir::detail
