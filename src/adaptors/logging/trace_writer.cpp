// SPDX-License-Identifier: Apache-2.0
#include "adaptors/logging/trace_writer.hpp"

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

#include "weir/error.hpp"

namespace weir::detail {

TraceWriter::TraceWriter(Sink sink, std::size_t buffer_bytes)
    : sink_(std::move(sink)), most_(std::min(buffer_bytes, std::size_t{1} << 30)) {
  filling_.reserve(most_ + longest_line);
  writing_.reserve(most_ + longest_line);
}

TraceWriter::~TraceWriter() { flush(); }

void TraceWriter::add(std::string_view line) noexcept {
  Lock lock(mutex_);
  while (filling_.size() > most_ && !off_) {
    busy_ ? written_.wait(lock) : write_out(lock);
  }
  if (off_) return;
  line = line.substr(0, longest_line);
  filling_.insert(filling_.end(), line.begin(), line.end());
  if (most_ == 0) return write_all(lock);
  if (filling_.size() > most_ && !busy_) write_out(lock);
}

void TraceWriter::flush() noexcept {
  Lock lock(mutex_);
  write_all(lock);
}

void TraceWriter::write_all(Lock& lock) noexcept {
  while (busy_ && !off_) written_.wait(lock);
  if (!off_ && !filling_.empty()) write_out(lock);
}

// Write the collected lines, and also those that other threads add meanwhile and will not write themselves.
void TraceWriter::write_out(Lock& lock) noexcept {
  busy_ = true;
  do {
    filling_.swap(writing_);
    lock.unlock();
    const std::exception_ptr failure = write();
    lock.lock();
    writing_.clear();
    if (failure) return turn_off(failure, lock);
  } while (filling_.size() > most_ && !off_);
  busy_ = false;
  written_.notify_all();
}

// Reported when no thread waits for this one any more: the user's sink may use the resource whose trace this is.
void TraceWriter::turn_off(const std::exception_ptr& failure, Lock& lock) noexcept {
  off_ = true;
  busy_ = false;
  written_.notify_all();
  lock.unlock();
  try {
    std::rethrow_exception(failure);
  } catch (const std::system_error& error) {
    report({error.code(), "trace of a resource", error.what()});
  } catch (const std::exception& error) {
    report({make_error_code(std::errc::io_error), "trace of a resource", error.what()});
  } catch (...) {
    report({make_error_code(std::errc::io_error), "trace of a resource", "unknown exception"});
  }
  lock.lock();
}

// Return what the sink threw.
std::exception_ptr TraceWriter::write() noexcept {
  try {
    sink_({writing_.data(), writing_.size()});
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

// The parent writes the lines that the child inherits. The file's position is the parent's, too.
void TraceWriter::fork(spi::ForkMoment moment) noexcept {
  if (moment == spi::ForkMoment::before) return mutex_.lock();
  if (moment == spi::ForkMoment::child) {
    new (&written_) std::condition_variable;  // the parent's threads wait on the old one forever
    off_ = true;
    filling_.clear();
  }
  mutex_.unlock();
}

}  // namespace weir::detail
