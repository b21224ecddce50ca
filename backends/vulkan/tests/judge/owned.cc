// SPDX-License-Identifier: Apache-2.0
#include "owned.hpp"

#include <algorithm>

namespace judge {
namespace {

constexpr const char* call = "vkCmdPipelineBarrier";

std::string text(const Part& part) { return bytes(part.begin, part.end, *part.buffer->memory); }

}  // namespace

std::vector<Owned::Piece>::const_iterator Owned::find(const Part& part) const {
  return std::find_if(pieces_.begin(), pieces_.end(), [&](const Piece& piece) {
    return piece.buffer->memory == part.buffer->memory && piece.begin <= part.begin && part.end <= piece.end;
  });
}

void Owned::check(const Part& part, const Access& access, Where where) const {
  const Memory& memory = *part.buffer->memory;
  if (!memory.external) return;
  const auto piece = find(part);
  if (piece == pieces_.end()) return violation(access.call, "uses " + text(part) + " without acquiring them");
  const auto place = static_cast<std::size_t>(where);
  if (!piece->ordered[place]) return violation(access.call, "uses " + text(part) + " before they are acquired");
  if (!(part.write ? piece->written : piece->read)[place])
    violation(access.call,
              std::string(part.write ? "writes " : "reads ") + text(part) + ", which were acquired for other accesses");
  memory.payload->cells.look(part.begin, part.end, [&](const Cell& cell, Bytes begin, Bytes end) {
    if (!cell.write.point.exists() || mine(*piece, cell.write.point)) return;
    const bool ordered = piece->before.covers(cell.write.point);
    if (ordered && piece->available.covers(cell.write.point)) return;
    violation(call, "it acquires " + bytes(begin, end, memory) + ", which " + describe(cell.write) + " wrote: " +
                        (ordered ? "ordered, but the write is not made available" : "nothing orders the two"));
  });
}

void Owned::transfer(const Barrier& barrier, const Barrier::OfBuffer& change, const View& from, bool ends_writes) {
  const bool in = change.from_family == VK_QUEUE_FAMILY_EXTERNAL;
  const std::uint32_t mine = in ? change.to_family : change.from_family;
  const std::uint32_t theirs = in ? change.from_family : change.to_family;
  if (mine != queue_.device->family || theirs != VK_QUEUE_FAMILY_EXTERNAL)
    violation(call, text(change.part) + " change owners between families " + std::to_string(change.from_family) +
                        " and " + std::to_string(change.to_family) + ", on one of family " +
                        std::to_string(queue_.device->family));
  in ? acquire(barrier, change) : release(change, from, ends_writes);
}

void Owned::acquire(const Barrier& barrier, const Barrier::OfBuffer& change) {
  const Part& part = change.part;
  const View& view = queue_.views[Where::ownership];
  if (find(part) != pieces_.end()) violation(call, text(part) + " are acquired, which they are already");
  Piece piece{part.buffer, part.begin, part.end, queue_.issued, view.before, view.available, barrier.second.operations,
              {},          {}};
  for (Where where : all_places) {
    const auto i = static_cast<std::size_t>(where);
    piece.read[i] = barrier.second.accessed(where) && names_reads(change.to, where);
    piece.written[i] = barrier.second.accessed(where) && names_writes(change.to, where);
    if (!barrier.second.orders(where)) continue;
    queue_.views[where].before.merge(piece.before);
    queue_.views[where].available.merge(piece.available);
  }
  pieces_.push_back(std::move(piece));
}

void Owned::release(const Barrier::OfBuffer& change, const View& from, bool ends_writes) {
  const Part& part = change.part;
  const auto piece = find(part);
  if (piece == pieces_.end()) return violation(call, text(part) + " are released, which are not acquired");
  part.buffer->memory->payload->cells.look(part.begin, part.end, [&](const Cell& cell, Bytes begin, Bytes end) {
    const auto tell = [&](const Access& access, const char* did, const char* what) {
      violation(call, "it releases " + bytes(begin, end, *part.buffer->memory) + ", which " + describe(access) + did +
                          ": " + what);
    };
    for (const Access& read : cell.reads) {
      if (mine(*piece, read.point) && !from.before.covers(read.point)) tell(read, " reads", "nothing orders the two");
    }
    if (!mine(*piece, cell.write.point)) return;
    if (!from.before.covers(cell.write.point))
      tell(cell.write, " wrote", "nothing orders the two");
    else if (!ends_writes && !from.available.covers(cell.write.point))
      tell(cell.write, " wrote", "the write is not made available");
  });
  queue_.views[Where::ownership].before.merge(from.before);
  queue_.views[Where::ownership].available.merge(from.available);
  pieces_.erase(piece);
}

void Owned::pass_on(const Barrier& barrier) {
  for (Piece& piece : pieces_) {
    bool reached = false;
    for (Where where : all_places)
      reached = reached || (piece.ordered[static_cast<std::size_t>(where)] && barrier.first.orders(where));
    if (!reached || (barrier.global.empty() && !barrier.buffers.empty())) continue;
    for (Where where : all_places) {
      const auto i = static_cast<std::size_t>(where);
      if (!barrier.second.orders(where)) continue;
      piece.ordered[i] = true;
      for (const VkMemoryBarrier& global : barrier.global) {
        if (!barrier.second.accessed(where)) continue;
        piece.read[i] = piece.read[i] || names_reads(global.dstAccessMask, where);
        piece.written[i] = piece.written[i] || names_writes(global.dstAccessMask, where);
      }
    }
  }
}

void Owned::end() const {
  for (const Piece& piece : pieces_)
    violation("vkQueueSubmit", bytes(piece.begin, piece.end, *piece.buffer->memory) +
                                   " are not released at the end of the batch that acquired them");
}

}  // namespace judge
