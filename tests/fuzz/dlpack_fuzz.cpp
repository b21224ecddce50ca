// SPDX-License-Identifier: Apache-2.0
// Tensors of a hostile producer, versioned and legacy: refused, or exactly what they say; the deleter once, always.

#include <dlpack/dlpack.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "bytes.hpp"
#include "input.hpp"
#include "memory.hpp"
#include "target.hpp"
#include "weir/dlpack.hpp"
#include "weir/error.hpp"

namespace weir::fuzz {
namespace {

using Wide = __int128;

/// Real memory of this process that tensors may lie in.
struct Arena {
  static constexpr std::size_t size = 4096;
  Buffer buffer;
  std::uint64_t address = 0;
  DlpackDevice device{};
};

std::vector<Arena> make_arenas(const Stream& stream) {
  std::vector<Arena> arenas;
  for (const test::Memory& memory : test::memories()) {
    if (memory.exportable || memory.stack != nullptr || !test::addressable.has(memory)) continue;
    Arena arena{memory.make()->allocate(Arena::size, stream), 0, {}};
    test::write(arena.buffer, test::pattern(Arena::size, 1), stream);
    const auto* host = arena.buffer.host_data();
    arena.address = host ? reinterpret_cast<std::uintptr_t>(host) : arena.buffer.device_address();
    arena.device = dlpack_device(arena.buffer);
    arenas.push_back(std::move(arena));
  }
  stream.synchronize();
  return arenas;
}

/// A producer's tensor, read from the input. Arrays are exactly as long as they say, so that reading on is seen.
class Producer {
 public:
  Producer(Input& input, const std::vector<Arena>& arenas) : arena(arenas[input.below(arenas.size())]) {
    const auto form = input.take<std::uint8_t>();
    legacy = form & 1U;
    tensor.device = {static_cast<DLDeviceType>(arena.device.type), arena.device.id};
    if (form & 2U) {
      tensor.device.device_type = static_cast<DLDeviceType>(static_cast<std::uint32_t>(input.number()));
      tensor.device.device_id = static_cast<std::int32_t>(input.number());
    }
    auto address = arena.address + input.take<std::uint16_t>() % Arena::size;
    if (form & 4U) address = static_cast<std::uint64_t>(input.number());
    tensor.data = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
    if (form & 8U) tensor.byte_offset = static_cast<std::uint64_t>(input.number());
    tensor.ndim = form & 16U ? static_cast<std::int32_t>(input.number()) : static_cast<std::int32_t>(input.below(6));
    has_deleter = !(form & 32U);
    version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    if (form & 64U) version = {input.take<std::uint8_t>(), input.take<std::uint8_t>()};
    flags = form & 128U ? input.take<std::uint8_t>() : 0;
    tensor.dtype = {input.take<std::uint8_t>(), input.take<std::uint8_t>(), input.take<std::uint16_t>()};
    const auto arrays = input.take<std::uint8_t>();
    const auto count = static_cast<std::size_t>(tensor.ndim >= 0 && tensor.ndim <= 64 ? tensor.ndim : 0);
    for (std::size_t i = 0; i < count; ++i) shape.push_back(input.number());
    for (std::size_t i = 0; i < count; ++i) strides.push_back(input.number());
    shape.shrink_to_fit();
    strides.shrink_to_fit();
    if (!(arrays & 1U)) tensor.shape = shape.data();
    if (!(arrays & 2U)) tensor.strides = strides.data();
  }

  Tensor give(const Stream& stream) {
    return legacy ? from_dlpack(fill(old), stream) : from_dlpack(fill(managed), stream);
  }

  /// The strides that count: the given ones, or those of an array without gaps.
  [[nodiscard]] std::vector<std::int64_t> steps() const {
    if (tensor.strides) return strides;
    std::vector<std::int64_t> compact(shape.size());
    Wide step = 1;
    for (std::size_t i = shape.size(); i-- > 0; step *= shape[i]) compact[i] = static_cast<std::int64_t>(step);
    return compact;
  }

  const Arena& arena;
  bool legacy = false, has_deleter = true;
  DLTensor tensor{};
  DLPackVersion version{};
  std::uint64_t flags = 0;
  std::vector<std::int64_t> shape, strides;
  std::atomic<int> deleted{0};

 private:
  template <class Managed>
  Managed* fill(Managed& given) {
    given.dl_tensor = tensor;
    given.manager_ctx = this;
    if (has_deleter) given.deleter = [](Managed* self) { ++static_cast<Producer*>(self->manager_ctx)->deleted; };
    if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>) {
      given.version = version;
      given.flags = flags;
    }
    return &given;
  }

  DLManagedTensor old{};
  DLManagedTensorVersioned managed{};
};

/// First byte and end of the elements, as the specification places them.
struct Range {
  Wide begin, end;
};
Range range_of(const Producer& producer) {
  Wide low = 0, high = 0;
  const auto steps = producer.steps();
  for (std::size_t i = 0; i < producer.shape.size(); ++i) {
    const Wide reach = Wide{producer.shape[i] - 1} * steps[i];
    (reach < 0 ? low : high) += reach;
  }
  const Wide item = (producer.tensor.dtype.bits * producer.tensor.dtype.lanes + 7) / 8;
  const Wide first = Wide{reinterpret_cast<std::uintptr_t>(producer.tensor.data)} + producer.tensor.byte_offset;
  return {first + low * item, first + (high + 1) * item};
}

/// Whether nothing about it is wrong, seen without arithmetic that could overflow.
bool plainly_good(const Producer& p) {
  const bool small = std::all_of(p.shape.begin(), p.shape.end(), [](auto n) { return n >= 0 && n < 100; }) &&
                     std::all_of(p.strides.begin(), p.strides.end(), [](auto n) { return n > -100 && n < 100; });
  const auto ndim = p.tensor.ndim;
  const auto range = small && ndim >= 0 && ndim <= 4 ? range_of(p) : Range{-1, 0};
  return range.begin >= p.arena.address && range.end <= p.arena.address + Arena::size && range.end > range.begin &&
         (ndim == 0 || p.tensor.shape) && p.tensor.dtype.bits != 0 && p.tensor.dtype.bits % 8 == 0 &&
         p.tensor.dtype.lanes != 0 && p.tensor.device.device_type == p.arena.device.type &&
         p.tensor.device.device_id == p.arena.device.id && (p.legacy || p.version.major == DLPACK_MAJOR_VERSION);
}

void check_bytes(const Producer& producer, const Buffer& buffer, const Range& range, const Stream& stream) {
  const Wide offset = range.begin - producer.arena.address;
  if (offset < 0 || range.end > producer.arena.address + Arena::size) return;  // names memory that is not there
  std::vector<std::byte> seen(buffer.size()), truth(buffer.size());
  buffer.copy_to(seen, stream);
  producer.arena.buffer.copy_to(truth, stream, static_cast<std::size_t>(offset));
  stream.synchronize();
  require(seen == truth, "the bytes are not those of the producer");
}

void check_export(const Producer& producer, const Tensor& tensor, const Stream& stream) {
  const auto exported = tensor.to_dlpack(stream);
  const DLTensor& back = exported.get()->dl_tensor;
  const bool empty = tensor.buffer().size() == 0;
  require(back.ndim == producer.tensor.ndim && back.byte_offset == 0, "exported with other dimensions");
  require(std::equal(producer.shape.begin(), producer.shape.end(), back.shape), "exported with another shape");
  require(empty || std::ranges::equal(producer.steps(), std::span(back.strides, producer.shape.size())),
          "exported with other strides");
  const auto data = reinterpret_cast<std::uintptr_t>(back.data);
  require(data == (empty ? 0 : reinterpret_cast<std::uintptr_t>(producer.tensor.data) + producer.tensor.byte_offset),
          "exported with another address");
  const bool read_only = !producer.legacy && (producer.flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
  require(empty || read_only == ((exported.get()->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0), "read-only got lost");
}

void run_dlpack(std::span<const std::byte> bytes) {
  static const Stream stream(host_device());
  static const std::vector<Arena> arenas = make_arenas(stream);
  Input input(bytes);
  Producer producer(input, arenas);
  const bool good = plainly_good(producer);
  ResourcePtr home;
  try {
    const Tensor tensor = producer.give(stream);
    home = tensor.buffer().memory_resource();
    if (const auto size = tensor.buffer().size(); size != 0) {
      const Range range = range_of(producer);
      require(range.begin > 0 && range.end <= Wide{1} << 57, "memory outside of the address space was accepted");
      require(Wide{size} == range.end - range.begin, "the buffer has another size than the elements span");
      require(producer.deleted == 0, "the deleter ran while the memory is in use");
      check_bytes(producer, tensor.buffer(), range, stream);
    }
    check_export(producer, tensor, stream);
  } catch (const Error& error) {
    require(!good, std::string("refused without a reason: ") + error.what());
    const auto code = error.code();
    require(code == Errc::invalid_argument || code == Errc::incompatible || code == Errc::unsupported, error.what());
    require(producer.deleted == (producer.has_deleter ? 1 : 0), "refused: the deleter did not run once by then");
  }
  stream.synchronize();
  if (home) (void)home->trim(0);
  require(producer.deleted == (producer.has_deleter ? 1 : 0), "the deleter did not run exactly once");
}

const Register registered("dlpack", &run_dlpack);

}  // namespace
}  // namespace weir::fuzz
