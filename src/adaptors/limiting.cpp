// SPDX-License-Identifier: Apache-2.0
#include "weir/adaptors/limiting.hpp"

#include "adaptors/adaptor.hpp"
#include "memory/lent.hpp"

namespace weir {
namespace {

class Limiting final : public detail::Adaptor<LimitingResource> {
 public:
  Limiting(ResourcePtr upstream, std::size_t limit) : Adaptor(std::move(upstream), "limit"), limit_(limit) {}

  [[nodiscard]] std::size_t limit() const noexcept override {
    const std::scoped_lock guard(lock());
    return limit_;
  }
  void set_limit(std::size_t bytes) noexcept override {
    const std::scoped_lock guard(lock());
    limit_ = bytes;
  }

 private:
  /// Bytes that are counted while upstream is asked for them.
  class Reservation {
   public:
    // Memory that other processes have left stays counted until somebody looks.
    Reservation(Limiting& of, std::size_t bytes, Shortage& shortage)
        : of_(of), bytes_(bytes), fits_(reserve(shortage) || (ask_for_lent() && reserve(shortage))) {}
    ~Reservation() {
      if (!fits_) return;
      const std::scoped_lock guard(of_.lock());
      of_.asked_ -= bytes_;
    }
    Reservation(const Reservation&) = delete;
    Reservation& operator=(const Reservation&) = delete;
    explicit operator bool() const noexcept { return fits_; }
    void keep() noexcept {
      fits_ = false;
      of_.came(bytes_, [this] { of_.asked_ -= bytes_; });
    }

   private:
    bool reserve(Shortage& shortage) {
      const std::scoped_lock guard(of_.lock());
      const auto used = of_.in_use() + of_.asked_;
      const bool fits = used <= of_.limit_ && bytes_ <= of_.limit_ - used;
      if (fits) of_.asked_ += bytes_;
      shortage.limit = fits ? 0 : of_.limit_;
      shortage.in_use = fits ? 0 : used;
      return fits;
    }
    [[nodiscard]] bool ask_for_lent() const { return of_.is_exportable() && detail::settle_lent(); }

    Limiting& of_;
    std::size_t bytes_;
    bool fits_;
  };

  spi::Block* do_allocate(const spi::Request& request, Shortage& shortage) override {
    Reservation reservation(*this, request.bytes, shortage);
    if (!reservation) {
      shortage.reserved = upstream_->stats().reserved;
      detail::tell_of_lent(*this, shortage);
      return nullptr;
    }
    spi::Block* const block = take(request, shortage);
    if (block) reservation.keep();
    return block;
  }

  std::size_t limit_;
  std::size_t asked_ = 0;  // bytes for which upstream is being asked
};

}  // namespace

LimitingPtr make_limiting(ResourcePtr upstream, std::size_t limit) {
  return detail::make_adaptor<Limiting>(detail::checked_upstream(std::move(upstream), "make_limiting"),
                                        limit);
}

}  // namespace weir
