// SPDX-License-Identifier: Apache-2.0
// Copies, fills and prefetches, in stream order, between any memories of this backend.
#include <algorithm>
#include <cstring>

#include "copy/host_bytes.hpp"
#include "rectangles.hpp"
#include "segment.hpp"
#include "stream.hpp"

namespace weir::cuda {
namespace {

CUdeviceptr address_of(const spi::Location& place) { return place.segment->address + place.offset; }

// Return the device whose streams must touch the memory; null when the streams of every device can.
Gpu* home_of(const spi::Location& place) {
  return on_device(*place.segment) ? &gpu_of(*place.segment->device) : nullptr;
}

// Return the pattern of `width` bytes as it appears `bytes` further on.
std::uint64_t rotate(std::uint64_t pattern, std::uint32_t width, std::size_t bytes) {
  const auto shift = 8 * (bytes % width), bits = std::size_t{8} * width;
  const auto mask = bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
  pattern &= mask;
  return shift == 0 ? pattern : ((pattern >> shift) | (pattern << (bits - shift))) & mask;
}

// A fill, made of the driver's aligned fills: a few pieces up to the first aligned address, then the body with the
// pattern rotated to match, then a few pieces at the end.
class Filler {
 public:
  Filler(CUstream stream, CUdeviceptr at, std::uint64_t pattern, std::uint32_t width, bool on_host)
      : stream_(stream), at_(at), pattern_(rotate(pattern, width, 0)), width_(width), on_host_(on_host) {
    while (width_ > 1 && rotate(pattern_, width_, width_ / 2) == pattern_) {
      width_ /= 2;
      pattern_ = rotate(pattern_, width_, 0);
    }
  }

  void run(std::size_t bytes) {
    const std::size_t unit = std::min<std::size_t>(width_, 4);
    const std::size_t head = std::min<std::size_t>((unit - at_ % unit) % unit, bytes);
    pieces(head);
    bytes -= head;
    const std::size_t body = bytes - bytes % width_;
    if (body != 0) width_ == 8 ? wide(body) : plain(body, width_);
    pieces(bytes - body);
  }

 private:
  /// Fill less than one pattern, in pieces as large as the alignment of the address allows.
  void pieces(std::size_t bytes) {
    while (bytes != 0) {
      std::uint32_t step = 1;
      while (step < 4 && step * 2 <= bytes && at_ % (step * 2) == 0) step *= 2;
      plain(step, step);
      bytes -= step;
    }
  }

  /// Fill `bytes` with the low `width` bytes of the pattern, at an address aligned to that; then rotate the pattern for
  /// what follows.
  void plain(std::size_t bytes, std::uint32_t width) {
    const auto count = bytes / width;
    const auto value = static_cast<unsigned int>(pattern_);
    if (width == 1) {
      check(driver().MemsetD8Async(at_, static_cast<unsigned char>(value), count, stream_), "cuMemsetD8Async", bytes,
            " bytes");
    } else if (width == 2) {
      check(driver().MemsetD16Async(at_, static_cast<unsigned short>(value), count, stream_), "cuMemsetD16Async", bytes,
            " bytes");
    } else {
      check(driver().MemsetD32Async(at_, value, count, stream_), "cuMemsetD32Async", bytes, " bytes");
    }
    at_ += bytes;
    pattern_ = rotate(pattern_, width_, bytes);
  }

  /// Fill with an 8-byte pattern. Two fills of every other 32-bit word make a first part; then copies double what is
  /// there. On the host the two fills make all of it, because the driver would run the copies on this thread.
  void wide(std::size_t bytes) {
    constexpr std::size_t first = std::size_t{1} << 20;
    std::size_t done = on_host_ ? bytes : std::min(bytes, first);
    for (std::uint32_t half = 0; half < 2; ++half) {
      check(driver().MemsetD2D32Async(at_ + 4 * half, 8, static_cast<unsigned int>(pattern_ >> (32 * half)), 1,
                                      done / 8, stream_),
            "cuMemsetD2D32Async", done, " bytes");
    }
    while (done < bytes) {
      const std::size_t step = std::min(done, bytes - done);
      check(driver().MemcpyAsync(at_ + done, at_, step, stream_), "cuMemcpyAsync", step, " bytes of a fill");
      done += step;
    }
    at_ += bytes;
  }

  CUstream stream_;
  CUdeviceptr at_;
  std::uint64_t pattern_;
  std::uint32_t width_;
  bool on_host_;
};

}  // namespace

template <class Work>
void GpuStream::run_on(Gpu& home, Work work) {
  if (context_ == home.context() || (green_ && &home == &gpu())) {
    const Turn turn(*this);
    return work(turn.handle());
  }
  const SideStream& side = sides_.on(home);
  const EventRef before = events_->take(), after = home.events().take();
  {
    const Turn turn(*this);
    check(driver().EventRecord(before->handle, turn.handle()), "cuEventRecord", device());
  }
  try {
    {
      const ContextScope scope(home.context());
      check(driver().StreamWaitEvent(side.handle(), before->handle, 0), "cuStreamWaitEvent", home);
      work(side.handle());
      check(driver().EventRecord(after->handle, side.handle()), "cuEventRecord", home);
    }
    const Turn turn(*this);
    check(driver().StreamWaitEvent(turn.handle(), after->handle, 0), "cuStreamWaitEvent", device());
  } catch (...) {
    // Part of the work may be on the side stream already. This stream would not wait for it, so the host does.
    side.synchronize();
    throw;
  }
}

void GpuStream::do_copy(const spi::CopyOp& op, std::uint64_t /*value*/) {
  const CUdeviceptr to = address_of(op.dst), from = address_of(op.src);
  if (on_host(*op.dst.segment) && on_host(*op.src.segment)) {
    // The driver would copy on this thread, after waiting for the stream.
    std::function<void()> copy = [to = op.dst.segment->host + op.dst.offset,
                                  from = op.src.segment->host + op.src.offset,
                                  bytes = op.bytes] { std::memcpy(to, from, bytes); };
    return launch(copy);
  }
  Gpu* const target = home_of(op.dst);
  Gpu* const source = home_of(op.src);
  if (target && source && target != source) {
    const Turn turn(*this);
    return check(driver().MemcpyPeerAsync(to, target->context(), from, source->context(), op.bytes, turn.handle()),
                 "cuMemcpyPeerAsync", op.bytes, " bytes from ", *source, " to ", *target);
  }
  // The driver finds out whose memory it is. It is not known to accept a stream of a device other than the memory's.
  Gpu* const home = target ? target : source;
  const auto copy = [&](CUstream stream) {
    check(driver().MemcpyAsync(to, from, op.bytes, stream), "cuMemcpyAsync", op.bytes, " bytes on ", device());
  };
  if (home && home != &gpu()) return run_on(*home, copy);
  const Turn turn(*this);
  copy(turn.handle());
}

void GpuStream::do_copy_region(const spi::RegionOp& op, std::uint64_t /*value*/) {
  const CUdeviceptr to = address_of(op.dst), from = address_of(op.src);
  const spi::Region& region = *op.region;
  if (on_host(*op.dst.segment) && on_host(*op.src.segment)) {
    std::function<void()> copy = [op] { weir::detail::copy_host(op); };
    return launch(copy);
  }
  Gpu* const target = home_of(op.dst);
  Gpu* const source = home_of(op.src);
  if (target && source && target != source) {
    const Turn turn(*this);
    return spi::for_each_row(region.dimensions, [&](std::ptrdiff_t dst, std::ptrdiff_t src) {
      check(driver().MemcpyPeerAsync(to + static_cast<CUdeviceptr>(dst), target->context(),
                                     from + static_cast<CUdeviceptr>(src), source->context(), region.row_bytes,
                                     turn.handle()),
            "cuMemcpyPeerAsync", region.row_bytes, " bytes of a region from ", *source, " to ", *target);
    });
  }
  Gpu* const home = target ? target : source;
  const auto copy = [&](CUstream stream) {
    for_each_rectangle(to, from, region, [&](const CUDA_MEMCPY3D& rectangle) {
      if (rectangle.Height == 1 && rectangle.Depth == 1) {  // may be longer than the driver's largest pitch
        return check(driver().MemcpyAsync(rectangle.dstDevice, rectangle.srcDevice, rectangle.WidthInBytes, stream),
                     "cuMemcpyAsync", rectangle.WidthInBytes, " bytes of a region on ", device());
      }
      check(driver().Memcpy3DAsync(&rectangle, stream), "cuMemcpy3DAsync", rectangle.Depth, " times ", rectangle.Height,
            " rows of ", rectangle.WidthInBytes, " bytes on ", device());
    });
  };
  if (home && home != &gpu()) return run_on(*home, copy);
  const Turn turn(*this);
  copy(turn.handle());
}

// Host memory and managed memory can be filled by streams of every context.
void GpuStream::do_fill(const spi::FillOp& op, std::uint64_t /*value*/) {
  const auto fill = [&](CUstream stream) {
    Filler(stream, address_of(op.dst), op.pattern, op.pattern_bytes, on_host(*op.dst.segment)).run(op.bytes);
  };
  if (Gpu* const home = home_of(op.dst)) return run_on(*home, fill);
  const Turn turn(*this);
  fill(turn.handle());
}

void GpuStream::do_prefetch(const spi::PrefetchOp& op, std::uint64_t /*value*/) {
  const bool to_gpu = op.to->backend == device().backend;
  const CUdevice target = to_gpu ? gpu_of(*op.to).handle() : CU_DEVICE_CPU;
  const Turn turn(*this);
  check(driver().MemPrefetchAsync(address_of(op.at), op.bytes, target, turn.handle()), "cuMemPrefetchAsync", op.bytes,
        " bytes to ", *op.to);
}

}  // namespace weir::cuda
