// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which streams of the application this thread may ask the driver about, although nobody owns them: those that the
// present call names.

namespace weir::cuda {

class GpuStream;

/// A call of the application that names a stream. Lives on the stack of the thread that runs the call.
class Naming {
 public:
  /// `stream` is the timeline of the stream that is named; null when it has none. With `spares_captures`, points of the
  /// whole context are refused during the call, because somebody may be capturing a stream, and such a point would
  /// spoil the capture.
  Naming(const GpuStream* stream, bool spares_captures) noexcept
      : stream_(stream), spares_captures_(spares_captures), outer_(innermost) {
    innermost = this;
  }
  Naming(const Naming&) = delete;
  Naming& operator=(const Naming&) = delete;
  ~Naming() { innermost = outer_; }

  /// Return whether a call that this thread is in names that stream.
  [[nodiscard]] static bool names(const GpuStream& stream) noexcept {
    for (const Naming* one = innermost; one; one = one->outer_) {
      if (one->stream_ == &stream) return true;
    }
    return false;
  }
  /// Return whether points of the whole context are refused now, and remember that one was asked for.
  [[nodiscard]] static bool refuses_context_points() noexcept {
    if (!innermost || !innermost->spares_captures_) return false;
    innermost->refused_ = true;
    return true;
  }
  /// Return whether a point of the whole context was refused during this call.
  [[nodiscard]] bool has_refused() const noexcept { return refused_; }

 private:
  const GpuStream* const stream_;
  const bool spares_captures_;
  bool refused_ = false;
  Naming* const outer_;
  static thread_local constinit Naming* innermost;
};

}  // namespace weir::cuda
