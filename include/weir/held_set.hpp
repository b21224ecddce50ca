// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sets of tensors that outlive the process that made them. A holder (holder.hpp, `weir hold PATH`) keeps them; a new
// process has them back without a copy. Read ipc.hpp first.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "weir/export.hpp"
#include "weir/fwd.hpp"
#include "weir/tensor.hpp"

namespace weir::ipc {

/// Options of a connection to a holder.
struct HoldOptions {
  std::chrono::milliseconds timeout{10000};  ///< for connecting; negative = no limit
  bool other_users = false;  ///< talk to a holder of another user, too; that user can then show and take any bytes
};

/// A committed set.
struct HeldSet {
  std::uint64_t epoch = 0;  ///< greater for every later commit to the same holder
  std::map<std::string, Tensor, std::less<>> tensors;  ///< by name, read-only
};

/// Puts a named set into a holder. A set is committed as a whole and replaces the one before; what is not committed
/// vanishes with its writer.
///
/// **The memory of a committed set must not be written any more**, because readers see it as it is. A tensor may be
/// closed right after the commit, and its memory stays as it was:
/// * Memory of a resource that does not use memory again (MemoryResource::reuses_memory) lives on in the holder alone.
/// * Memory of a pool is not given to another buffer until the set was replaced or removed, the holder has let go of it,
///   and every reader has closed its tensors or has ended. This process keeps it until then, however the others end. The
///   segment is shared as a whole: readers can also read what else the pool keeps there.
///
/// When this process ends, the holder and the readers have what was committed, and nobody uses the memory for anything
/// else. Thread-safe: calls take turns.
class WEIR_API SetWriter {
 public:
  static constexpr std::chrono::milliseconds endless{-1};  ///< no time limit
  static constexpr std::size_t most_name = 255;            ///< bytes of a name of a set or a tensor
  static constexpr std::size_t most_dimensions = 64;       ///< of a tensor

  /// Connect to the holder at `path`, to write the set `name`. Throws peer_gone when no holder is there;
  /// permission_denied when it is another user's; incompatible when it speaks another version; timed_out;
  /// invalid_argument for a name that is empty or too long, or not UTF-8 without control characters.
  SetWriter(std::string path, std::string name, const HoldOptions& options = {});
  SetWriter(SetWriter&& other) noexcept;             ///< take over what `other` has
  SetWriter& operator=(SetWriter&& other) noexcept;  ///< the same; what was not committed here vanishes
  /// Drop what was not committed.
  ~SetWriter();

  /// Put a tensor into the next commit, as it is after all work on `stream` and all recorded uses so far. The tensor is
  /// kept until then. Throws unsupported for memory that was not made exportable, and for memory of another process,
  /// whose owner may use it again: copy that; invalid_argument for a name that is empty, too long, taken or no text,
  /// and for too many dimensions; closed.
  void add(std::string_view name, const Tensor& tensor, const Stream& stream);
  /// Forget what was added since the last commit.
  void discard();

  /// Wait until all work on the added tensors is complete, and make them the next epoch of the set, all at once. Return
  /// the epoch. Nothing added means an empty set. Readers see the epoch before, or this one, and no mixture.
  ///
  /// Throws invalid_argument when the tensors lie in more than 65 536 segments; timed_out; device_lost; peer_gone when
  /// the holder has ended; permission_denied for memory of a CPU Vulkan driver when the holder is another user's;
  /// out_of_memory, as an Error that names the limit, when the holder takes no more. When this throws, what was added
  /// is still there, and the call can be repeated: it connects again where that is needed. If the time limit passed
  /// while the holder had yet to answer, the set may have been committed.
  std::uint64_t commit(std::chrono::milliseconds timeout = endless);
  /// Take the set out of the holder. Readers keep what they have. Nothing happens when there is no such set. What was
  /// added stays. Throws timed_out, peer_gone.
  void remove(std::chrono::milliseconds timeout = endless);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Gets a named set from a holder. Thread-safe: calls take turns.
class WEIR_API SetReader {
 public:
  static constexpr std::chrono::milliseconds endless{-1};  ///< no time limit

  /// Connect to the holder at `path`, to read the set `name`, which need not exist yet. Throws as SetWriter does.
  SetReader(std::string path, std::string name, const HoldOptions& options = {});
  SetReader(SetReader&& other) noexcept;             ///< take over what `other` has
  SetReader& operator=(SetReader&& other) noexcept;  ///< the same
  /// Close the connection. Tensors that were opened stay valid.
  ~SetReader();

  /// Return the set with the newest epoch, once that is greater than `newer_than`. The tensors are usable on `stream` at
  /// once, and on the device of `stream` if that device can open the memory. Each segment is opened once, whatever the
  /// number of its tensors, and not again while it is also part of the next epoch that this object opens. This object
  /// keeps the segments of the set that it opened last; closing all tensors lets the writer use a pool's memory again.
  ///
  /// All memory is read-only: weir refuses to write it. The kernel enforces that for host memory, which is mapped
  /// without the right to write, and CUDA's driver does where it can; Vulkan cannot.
  ///
  /// Throws timed_out when there is no such set in time; peer_gone when the holder has ended; corrupt_descriptor when
  /// the writer or the holder told what cannot be; and what ipc::open throws for memory that cannot be opened here. Then
  /// nothing was opened. After timed_out, and when memory could not be opened, the call can be repeated; after every
  /// other failure, make a new reader. If the holder has lost patience between two calls, the second one connects and
  /// asks again. It may take 100 ms for that, even if its time limit is shorter.
  [[nodiscard]] HeldSet open(const Stream& stream, std::chrono::milliseconds timeout = endless,
                             std::uint64_t newer_than = 0);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace weir::ipc
