// SPDX-License-Identifier: Apache-2.0
#pragma once
// The tensors of a set as bytes. The holder passes them on as they are; a reader checks them field by field.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "ipc/hold/messages.hpp"
#include "weir/layout.hpp"

namespace weir::detail::hold {

inline constexpr std::size_t most_dimensions = 64;

/// Where a tensor lies.
struct Record {
  static constexpr std::uint32_t no_segment = 0xffffffff;  ///< of a buffer of zero bytes
  std::string_view name;
  std::uint32_t segment = no_segment;  ///< its place in the set's list; the buffer may go on in those that follow
  std::uint64_t offset = 0;            ///< of the tensor's buffer in the segment
  std::uint64_t size = 0;              ///< of that buffer
  Layout layout;                       ///< in that buffer
};

/// Builds packets of Tensors.
class RecordWriter {
 public:
  /// The name and the dimensions must keep to their limits.
  void add(const Record& record);
  /// Return all packets.
  [[nodiscard]] std::vector<Packet> finish();

 private:
  std::vector<Packet> packets_;
  std::uint32_t count_ = 0;  // in the last packet
};

/// Call `use` for each record of a message. Throws corrupt_descriptor for what is no record, and passes on what `use`
/// throws.
void read_records(const Tensors& message, const std::function<void(Record&&)>& use);

}  // namespace weir::detail::hold
