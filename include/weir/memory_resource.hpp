// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where Buffers come from. Factories make resources: those of host.hpp, cuda.hpp and vulkan.hpp, or make_resource
// below. Resources are thread-safe and shared by handle. They stack: one may stand on another. Next, read
// buffer.hpp.

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>

#include "weir/device.hpp"
#include "weir/error.hpp"
#include "weir/export.hpp"
#include "weir/fwd.hpp"
#include "weir/stream.hpp"

namespace weir {

/// Counters of a resource, in bytes unless stated otherwise.
struct ResourceStats {
  std::size_t in_use = 0;        ///< sum of the sizes of live buffers
  std::size_t reserved = 0;      ///< held from the driver or upstream, including memory that waits to be given back
  std::size_t peak_in_use = 0;   ///< the most that `in_use` has been; see Pool for its precision there
  std::size_t peak_reserved = 0;  ///< the most that `reserved` has been
  std::size_t live_buffers = 0;  ///< count
  std::uint64_t allocations = 0; ///< count since the resource was made
  // The device's memory from which the buffers come, as its driver counts it at this moment. Both are empty where the
  // driver does not say, and for memory of the host.
  std::optional<std::size_t> device_budget = {};  ///< the most that the driver lets this process have of it in all
  std::optional<std::size_t> device_free = {};    ///< what this process can still get of it
  // Memory that other processes use: it was lent over a channel, or exported from a resource that uses memory again,
  // and has not come back. A buffer counts with all its bytes, whichever part was given away, and once, however many
  // processes have it. weir/leases.hpp says which these are. Exact while nothing is sent, closed or given back.
  std::size_t leased = 0;                 ///< bytes of these buffers, which are part of `in_use`
  std::size_t leased_buffers = 0;         ///< count of them
  std::size_t leased_closed = 0;          ///< bytes of those that have no owner in this process any more
  std::size_t leased_closed_buffers = 0;  ///< count of those
};

/// Abstract source of memory. To write a resource, implement the virtual functions. Callers reach the private ones only
/// through functions that check the arguments.
class WEIR_API MemoryResource : public std::enable_shared_from_this<MemoryResource> {
 public:
  MemoryResource(const MemoryResource&) = delete;  ///< handles are shared instead
  MemoryResource& operator=(const MemoryResource&) = delete;
  virtual ~MemoryResource();

  /// Allocate `bytes` bytes. The memory is usable on `stream` at once, and on another stream after that stream has
  /// waited for a point of `stream`. `stream` may be of any device: the memory's life begins on it and, unless
  /// `close(stream)` says otherwise, ends on it. Zero bytes succeed without a driver call. `alignment` is a power of
  /// two of at most 1 GiB; a value below default_alignment is raised to default_alignment. It applies to the device
  /// address, or to the host address of memory that has no device address. Throws OutOfMemory when the memory is
  /// exhausted, and Error{invalid_argument} for any other alignment.
  [[nodiscard]] Buffer allocate(std::size_t bytes, const Stream& stream, std::size_t alignment = default_alignment);
  /// The same, but return nullopt when the memory is exhausted. Every other failure still throws.
  [[nodiscard]] std::optional<Buffer> try_allocate(std::size_t bytes, const Stream& stream,
                                                   std::size_t alignment = default_alignment);

  [[nodiscard]] Device device() const noexcept { return device_; }          ///< where the memory is
  [[nodiscard]] const std::string& name() const noexcept { return name_; }  ///< "cuda.vmm", "pool(cuda.vmm)"
  /// Return whether the host can reach the memory.
  [[nodiscard]] bool is_host_accessible() const noexcept { return traits_.host_accessible; }
  /// Return whether device() can reach the memory.
  [[nodiscard]] bool is_device_accessible() const noexcept { return traits_.device_accessible; }
  [[nodiscard]] MemoryKind kind() const noexcept { return traits_.kind; }  ///< of the memory, below all adaptors
  /// Return whether buffers of this resource can be given to another process.
  [[nodiscard]] bool is_exportable() const noexcept { return traits_.exportable; }
  /// Return whether the memory of a closed buffer goes to other buffers. An export then keeps the memory until every
  /// importer is done with it.
  [[nodiscard]] bool reuses_memory() const noexcept { return traits_.reuses_memory; }

  /// Return the counters as they are now. May ask the driver about the device's memory.
  [[nodiscard]] virtual ResourceStats stats() const = 0;
  /// Give back memory that no buffer uses, until at most `bytes_to_keep` bytes of it remain. Return the bytes given
  /// back. Waits on the host for the pending uses of memory that this resource and those under it got back before the
  /// call, and for nothing later. May throw when memory runs out, also when that keeps a driver from being asked.
  /// What is pending then goes back as it would have without the call.
  virtual std::size_t trim(std::size_t bytes_to_keep) = 0;
  /// Return the resource that this one stands on; null when it stands on a driver. It must not call weir, because it is
  /// called with locks held.
  [[nodiscard]] virtual ResourcePtr upstream() const { return nullptr; }

 protected:
  /// What a derived class says about its memory. It never changes.
  struct Traits {
    MemoryKind kind = MemoryKind::external;  ///< what kind() returns
    bool host_accessible = false;            ///< what is_host_accessible() returns
    bool device_accessible = false;          ///< what is_device_accessible() returns
    bool exportable = false;                 ///< what is_exportable() returns
    bool reuses_memory = true;  ///< true is always safe; an adaptor passes on the value of its upstream
    /// Whether do_deallocate, by the time it returns, has kept or forgotten the uses of the block (Block::keep_uses),
    /// so that the stream of a closing caller need not be retained for it. Never safe for a resource that only puts the
    /// block aside.
    bool keeps_uses = false;
  };
  /// For derived classes. `name` is what name() returns.
  MemoryResource(Device device, std::string name, Traits traits);

  /// For resources that stand on another: take a block from `upstream`, or return null with `shortage` filled in.
  static spi::Block* allocate_from(MemoryResource& upstream, const spi::Request& request, Shortage& shortage);
  /// The same the other way: give a block without owners back to `upstream`, which it came from.
  static void deallocate_to(MemoryResource& upstream, spi::Block& block) noexcept;
  /// The same for addresses: what do_reserve_addresses of `upstream` returns.
  static spi::Block* reserve_addresses_from(MemoryResource& upstream, std::size_t bytes, const Stream& stream);

 private:
  friend class Buffer;
  /// Return a block that has one owner and whose `resource` is this one, or null with `shortage` filled in. The
  /// resource must stay alive until the block has come back (see BlockStore). `request.bytes` is greater than 0.
  virtual spi::Block* do_allocate(const spi::Request& request, Shortage& shortage) = 0;
  /// The same from memory that is at hand; null when do_allocate has to look for some. Called before do_allocate.
  virtual spi::Block* do_allocate_cached(const spi::Request& /*request*/) noexcept { return nullptr; }
  /// Return a block over a paged segment of at least `bytes` addresses, which counts as zero bytes; null when this
  /// resource has no such segments. The block ends like every other.
  virtual spi::Block* do_reserve_addresses(std::size_t /*bytes*/, const Stream& /*stream*/) { return nullptr; }
  /// Return a handle for a caller that has only a buffer. A resource that may outlive its handles makes a new handle.
  virtual ResourcePtr do_handle() { return shared_from_this(); }
  /// Take back a block that has no owners any more. Its uses (Block::take_uses) may be pending; do not wait for them.
  virtual void do_deallocate(spi::Block& block) noexcept = 0;

  Buffer allocate_empty(const Stream& stream);
  Buffer allocate_uncached(const spi::Request& request);
  static void deallocate(spi::Block& block) noexcept;

  Device device_;
  std::string name_;
  Traits traits_;
};

namespace detail {

template <class Own>
concept OwnOptions = std::is_aggregate_v<Own> && requires { Own{.exportable = false}; };

}  // namespace detail

/// Options that every kind of memory understands.
struct ResourceOptions {
  bool exportable = false;  ///< buffers can be given to another process; refused with unsupported where impossible

  /// Return the same as options of a backend's own factories, such as cuda::VmmOptions and vulkan::BufferOptions.
  template <detail::OwnOptions Own>
  [[nodiscard]] constexpr operator Own() const {
    return Own{.exportable = exportable};
  }
};

/// Make the plain resource of one memory kind: each buffer is one segment from the driver. Throws unsupported when the
/// device lacks that kind; the message lists the kinds that the device has.
[[nodiscard]] WEIR_API ResourcePtr make_resource(const Device& device, MemoryKind kind,
                                                 const ResourceOptions& options = {});
/// The same for the device's default kind.
[[nodiscard]] WEIR_API ResourcePtr make_resource(const Device& device, const ResourceOptions& options = {});

}  // namespace weir
