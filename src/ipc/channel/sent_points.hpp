// SPDX-License-Identifier: Apache-2.0
#pragma once
// The points of this process's streams that peers wait for.

#include <sys/types.h>

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/forks.hpp"
#include "ipc/channel/words.hpp"
#include "ipc/timeline_page.hpp"
#include "weir/spi/unique_fd.hpp"
#include "weir/stream.hpp"

namespace weir::spi {
struct Backend;
}

namespace weir::detail::channel {

/// A page that the peers of one user see, all of them as long as it has room: what devices can write stays for good, so
/// there should be little of it. Thread-safe.
class SentPoints : public std::enable_shared_from_this<SentPoints> {
 public:
  /// Return a page for a peer of `user`. It is made if all that there are have many words that somebody waits for.
  /// Throws when the system has no file or no memory for it.
  [[nodiscard]] static std::shared_ptr<SentPoints> of(uid_t user);

  SentPoints() = default;  ///< Throws as of() does, which calls this.
  SentPoints(const SentPoints&) = delete;
  SentPoints& operator=(const SentPoints&) = delete;
  ~SentPoints();

  /// Return a point that is reached when everything is complete that was put on `stream` so far. It is given up when
  /// the stream is lost before that. Throws unsupported when page_words other streams have points that were not
  /// reached.
  [[nodiscard]] PagePoint record(const Stream& stream);
  /// Return a copy of the page's file.
  [[nodiscard]] spi::UniqueFd file() const { return page_->file().duplicate(); }

 private:
  /// How far it is known whether devices of a backend write the page.
  struct Writer {
    const spi::Backend* backend;
    enum class Answer : std::uint8_t { awaited, no, yes } answer;
  };

  static void give_up(const spi::StreamState& timeline) noexcept;
  [[nodiscard]] bool has_room();
  [[nodiscard]] bool let_write(spi::DeviceState& device);

  const std::shared_ptr<OwnPage> page_ = std::make_shared<OwnPage>();  // also kept by what stands on the streams
  std::mutex mutex_;                 // never while a user's function may be called: to be told of a stream's loss, say
  std::condition_variable changed_;  // a word is kept no more
  Words words_;
  std::vector<Writer> writers_;
  std::shared_ptr<SentPoints> for_good_;  // itself, if some device writes the page
  SentPoints* next_written_ = nullptr;
  const std::uint32_t process_ = fork_generation;
};

}  // namespace weir::detail::channel
