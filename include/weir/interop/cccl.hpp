// SPDX-License-Identifier: Apache-2.0
#pragma once
// Resources of weir as resources of CCCL (cuda::mr), and the other way round. Optional: needs the CUDA backend and CCCL
// 3.2 or newer, which must come before an older CCCL of the CUDA toolkit on the include path. Not part of weir.hpp,
// because <cuda/memory_resource> takes seconds to compile.

#if !__has_include(<cuda/std/version>)
#error "weir/interop/cccl.hpp: CCCL was not found: pip install nvidia-cuda-cccl, and name its folder with -I"
#endif
#include <cuda/std/version>
#if !defined(CCCL_VERSION) || CCCL_VERSION < 3002000
#error "weir/interop/cccl.hpp needs CCCL 3.2: name the folder of a newer one with -I before the toolkit"
#endif

#include <cuda/memory_resource>
#include <cuda/stream_ref>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "weir/callback_resource.hpp"
#include "weir/cuda.hpp"
#include "weir/error.hpp"
#include "weir/interop/cuda_allocator.hpp"
#include "weir/memory_resource.hpp"
#include "weir/stream.hpp"

// For nvcc: when a function for both host and device copies an object, nvcc assumes that device code may copy that
// object, and then refuses what the copy does on the host.
#if defined(__CUDACC__)
#define WEIR_CCCL_BOTH _Pragma("nv_exec_check_disable") __host__ __device__
#else
#define WEIR_CCCL_BOTH
#endif

/// Resources of weir as resources of CCCL (`cuda::mr`), and the other way round.
namespace weir::cccl {

/// A function that throws what callers expect of a resource that has no memory left. If it returns, the OutOfMemory
/// itself is thrown.
using OnExhaustion = std::function<void(const OutOfMemory&)>;

namespace detail {

/// The state that all copies of a Resource share.
struct State {
  cuda::Allocator allocator;
  const OnExhaustion exhausted;
  std::atomic<std::size_t> owners{1};

  template <class Ask>
  void* ask(Ask ask) {
    try {
      return ask(allocator);
    } catch (const OutOfMemory& error) {
      if (exhausted) exhausted(error);
      throw;
    }
  }
};
inline State* retain(State* state) noexcept {
  state->owners.fetch_add(1, std::memory_order_relaxed);
  return state;
}
inline void release(State* state) noexcept {
  if (state->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete state;
}

}  // namespace detail

/// Whether `Property` is one of `Properties`.
template <class Property, class... Properties>
inline constexpr bool includes = (std::is_same_v<Property, Properties> || ...);

/// A resource of weir in the form that `cuda::buffer`, `any_resource` and RMM's containers take: it satisfies
/// `cuda::mr::resource_with<…, Properties…>`. A value of one pointer. Copies are equal, share what is allocated, and
/// keep the resource alive. A move is a copy, so no Resource is ever empty.
///
/// Memory is ordered as by cuda::Allocator. It is usable on the stream that is given. Once it is given back, it is
/// reused after what that stream has by then. A stream may end at any time. Allocating throws OutOfMemory, which is a
/// std::bad_alloc, or what the caller's function throws instead.
template <class... Properties>
class Resource {
  static constexpr bool for_host = includes<::cuda::mr::host_accessible, Properties...>;
  static constexpr bool for_device = includes<::cuda::mr::device_accessible, Properties...>;
  static_assert(for_host || for_device,
                "say who accesses the memory: cuda::mr::host_accessible, device_accessible");

 public:
  /// For CCCL: the properties of the memory.
  using default_queries = ::cuda::mr::properties_list<Properties...>;

  /// Throws unsupported when the memory is not accessible as the properties say, or belongs to neither CUDA nor the
  /// host. RMM's callers expect RMM's own exception, for which `exhausted` can be
  /// [](const weir::OutOfMemory& e) { throw rmm::out_of_memory(e.what()); }
  explicit Resource(ResourcePtr resource, OnExhaustion exhausted = {})
      : state_(new detail::State{cuda::Allocator(checked(std::move(resource))), std::move(exhausted)}) {}

  /// Share what `other` allocates from.
  WEIR_CCCL_BOTH Resource(const Resource& other) noexcept : state_(detail::retain(other.state_)) {}
  /// Share what `other` allocates from, and let go of what this one allocated from.
  WEIR_CCCL_BOTH Resource& operator=(const Resource& other) noexcept {
    detail::State* const before = state_;
    state_ = detail::retain(other.state_);
    detail::release(before);
    return *this;
  }
  WEIR_CCCL_BOTH ~Resource() { detail::release(state_); }

  /// Return memory for use on `stream`, as cuda::Allocator::allocate.
  [[nodiscard]] void* allocate(::cuda::stream_ref stream, std::size_t bytes,
                               std::size_t alignment = default_alignment) {
    return state_->ask([&](cuda::Allocator& from) { return from.allocate(stream.get(), bytes, alignment); });
  }
  /// Give memory back after everything on `stream` so far, as cuda::Allocator::deallocate. The size is not needed.
  void deallocate(::cuda::stream_ref stream, void* address, std::size_t /*bytes*/,
                  std::size_t /*alignment*/ = default_alignment) noexcept {
    state_->allocator.deallocate(stream.get(), address);
  }
  /// Return memory that every stream and the host may use at once.
  [[nodiscard]] void* allocate_sync(std::size_t bytes, std::size_t alignment = default_alignment) {
    return state_->ask([&](cuda::Allocator& from) { return from.allocate_sync(bytes, alignment); });
  }
  /// Give back memory that no stream uses any more. The size is not needed.
  void deallocate_sync(void* address, std::size_t /*bytes*/,
                       std::size_t /*alignment*/ = default_alignment) noexcept {
    state_->allocator.deallocate_sync(address);
  }

  /// Return the resource of weir that this one stands on.
  [[nodiscard]] const ResourcePtr& resource() const noexcept { return state_->allocator.resource(); }

  /// Whether each can give back what the other allocated: one is a copy of the other.
  friend bool operator==(const Resource& a, const Resource& b) noexcept { return a.state_ == b.state_; }

  /// For CCCL: says that the memory has `Property`, which has no value.
  template <class Property>
  requires includes<Property, Properties...>
  friend void get_property(const Resource& /*resource*/, Property /*property*/) noexcept {}

 private:
  static ResourcePtr checked(ResourcePtr resource) {
    if (!resource) throw Error(Errc::invalid_argument, "cccl::Resource: the resource is null");
    const auto refuse = [&](const char* whom) {
      throw Error(Errc::unsupported,
                  "cccl::Resource: memory of " + resource->name() + " is not accessible by the " + whom);
    };
    if (for_host && !resource->is_host_accessible()) refuse("host");
    const bool on_host = resource->kind() == MemoryKind::pageable || resource->kind() == MemoryKind::shared;
    if (for_device && (on_host || !resource->is_device_accessible())) refuse("device");
    return resource;
  }

  detail::State* state_;
};

using DeviceResource = Resource<::cuda::mr::device_accessible>;  ///< any CUDA memory
using HostResource = Resource<::cuda::mr::host_accessible>;      ///< pageable, pinned, managed
using SharedResource =
    Resource<::cuda::mr::device_accessible, ::cuda::mr::host_accessible>;  ///< pinned, managed

/// Make a resource of `device` from a resource of CCCL or RMM, so that pools, adaptors and buffers of weir can stand on
/// it. The properties of `theirs` say who can access the memory. A copy of `theirs` is kept while its memory lives.
/// What such a copy only refers to (as a `device_memory_pool_ref` does) is the caller's to keep until this resource and
/// its memory are gone. On a CUDA device, a resource that allocates in stream order does so on a stream of its own, and
/// gets memory back when no use is left, without a wait on the host; only the end of this resource waits until the
/// driver has carried that out. `theirs` must be safe to call on several threads, as CCCL's resources are. See
/// make_callback_resource for the rest.
template <class Theirs>
requires ::cuda::mr::synchronous_resource<std::remove_cvref_t<Theirs>>
[[nodiscard]] ResourcePtr make_resource(Theirs&& theirs, const Device& device, std::string name = "cccl") {
  using Resource = std::remove_cvref_t<Theirs>;
  struct Lent {
    Resource resource;
    Stream stream;
    ::cuda::stream_ref native;  ///< of `stream`, if `ordered`
    bool ordered;
  };
  constexpr bool in_order = ::cuda::mr::resource<Resource>;
  const bool ordered = in_order && device.backend() == "cuda";
  Stream stream(device);
  const ::cuda::stream_ref native{ordered ? cuda::native(stream) : ::cudaStream_t{}};
  // A memory pool must not end before all frees of its memory are carried out: drivers were seen to crash.
  const std::shared_ptr<Lent> lent(new Lent{std::forward<Theirs>(theirs), std::move(stream), native, ordered},
                                   [](Lent* ended) {
                                     const std::unique_ptr<Lent> owner(ended);
                                     try {
                                       if (owner->ordered) owner->stream.synchronize();
                                     } catch (const Error&) {  // lost: nothing is carried out any more
                                     }
                                   });

  CallbackOptions options;
  options.name = std::move(name);
  options.host_accessible = ::cuda::has_property<Resource, ::cuda::mr::host_accessible>;
  options.device_accessible =
      device.backend() == "host" || ::cuda::has_property<Resource, ::cuda::mr::device_accessible>;
  options.deallocate = [lent](void* address, std::size_t bytes) {
    if constexpr (in_order) {
      if (lent->ordered) return lent->resource.deallocate(lent->native, address, bytes, default_alignment);
    }
    lent->resource.deallocate_sync(address, bytes, default_alignment);
  };
  options.allocate = [lent, give_back = options.deallocate](std::size_t bytes, const Stream& user) -> void* {
    try {
      if constexpr (in_order) {
        if (lent->ordered) {
          void* const address = lent->resource.allocate(lent->native, bytes, default_alignment);
          try {
            user.wait(lent->stream.record());
          } catch (...) {
            give_back(address, bytes);
            throw;
          }
          return address;
        }
      }
      return lent->resource.allocate_sync(bytes, default_alignment);
    } catch (const ::cuda::cuda_error& error) {
      if (error.status() == ::cudaErrorMemoryAllocation) return nullptr;
      throw;
    }
  };
  return make_callback_resource(device, std::move(options));
}

}  // namespace weir::cccl

#undef WEIR_CCCL_BOTH
