// SPDX-License-Identifier: Apache-2.0
#pragma once
// A pipe that somebody keeps busy. Until he lets go, closing the last copy of either end blocks, and so do questions
// such as F_GETPIPE_SZ and FIONREAD: what any process can do to whoever holds an end of a pipe that it reads.

#include <thread>
#include <utility>

#include "weir/spi/unique_fd.hpp"

namespace weir::test {

/// Both ends of a new pipe, the one to read first; close-on-exec.
std::pair<spi::UniqueFd, spi::UniqueFd> pipe_pair();
/// The pipe of `end` once more, opened as `flags` say.
spi::UniqueFd reopened(int end, int flags);

class BusyPipe {
 public:
  /// Keep the pipe busy that `reads` reads. There must be something in it.
  explicit BusyPipe(spi::UniqueFd reads);
  BusyPipe(const BusyPipe&) = delete;
  BusyPipe& operator=(const BusyPipe&) = delete;
  ~BusyPipe() { let_go(); }

  void let_go();

 private:
  spi::UniqueFd reads_, full_, drain_;
  std::thread thread_;
};

/// A file whose closing blocks for as long as this object lives.
class BlockingFile {
 public:
  BlockingFile();
  /// The only copy.
  [[nodiscard]] spi::UniqueFd take() { return std::move(file_); }
  void let_go() { busy_.let_go(); }

 private:
  explicit BlockingFile(std::pair<spi::UniqueFd, spi::UniqueFd> ends);
  spi::UniqueFd file_;
  BusyPipe busy_;
};

}  // namespace weir::test
