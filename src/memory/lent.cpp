// SPDX-License-Identifier: Apache-2.0
#include "memory/lent.hpp"

#include <algorithm>
#include <atomic>
#include <string>
#include <tuple>

#include "weir/spi/block.hpp"

namespace weir::detail {
namespace {

constinit std::atomic<const LentAnswers*> registered{nullptr};

std::string names_of(const std::vector<LentTo>& borrowers) {
  constexpr std::size_t most_names = 4;
  std::vector<std::string> names;
  bool unknown = false;
  for (const LentTo& one : borrowers) {
    if (one.closed_buffers == 0) continue;
    one.process == 0 ? static_cast<void>(unknown = true) : names.push_back(std::to_string(one.process));
  }
  const std::size_t shown = std::min(names.size(), most_names);
  std::string text = names.empty() ? "" : names.size() == 1 ? "process " : "processes ";
  for (std::size_t i = 0; i < shown; ++i) {
    const bool last = i + 1 == names.size();
    text += (i == 0 ? "" : last ? " and " : ", ") + names[i];
  }
  if (names.size() > shown) text += " and " + std::to_string(names.size() - shown) + " more";
  if (unknown) text += text.empty() ? "a process that is not known" : ", and a process that is not known";
  return text;
}

}  // namespace

void LentList::add(const Buffer& buffer, std::int32_t process) {
  const spi::Block* const block = buffer.block();
  if (!block || !stands_on_it(*block->resource)) return;
  loans_.push_back({block, process, block->owners.load(std::memory_order_relaxed), block->size});
}

bool LentList::stands_on_it(const MemoryResource& resource) {
  const auto known = std::ranges::find(asked_, &resource, &std::pair<const MemoryResource*, bool>::first);
  if (known != asked_.end()) return known->second;
  const MemoryResource* one = &resource;
  ResourcePtr below;
  while (one && one != of_) {
    below = one->upstream();
    one = below.get();
  }
  asked_.emplace_back(&resource, one != nullptr);
  return one != nullptr;
}

// A buffer is closed when all its owners are loans.
Lent LentList::count() {
  Lent lent;
  std::ranges::sort(loans_, {}, [](const Loan& one) { return std::tuple(one.block, one.process); });
  const auto borrower = [&](std::int32_t process) -> LentTo& {
    const auto known = std::ranges::find(lent.to, process, &LentTo::process);
    return known != lent.to.end() ? *known : lent.to.emplace_back(LentTo{.process = process});
  };
  for (auto first = loans_.begin(); first != loans_.end();) {
    const auto end = std::find_if(first, loans_.end(), [&](const Loan& one) { return one.block != first->block; });
    const auto owners = std::max_element(first, end, [](auto& a, auto& b) { return a.owners < b.owners; })->owners;
    const bool closed = owners <= static_cast<std::size_t>(end - first);
    const auto count = [&](auto& in) {
      ++in.buffers;
      in.bytes += first->bytes;
      if (!closed) return;
      ++in.closed_buffers;
      in.closed_bytes += first->bytes;
    };
    count(lent);
    if (closed) lent.closed.push_back(first->block);
    for (auto one = first; one != end; ++one) {
      if (one == first || one->process != std::prev(one)->process) count(borrower(one->process));
    }
    first = end;
  }
  std::ranges::sort(lent.to, {}, [](const LentTo& one) { return std::tuple(~one.bytes, one.process); });
  return lent;
}

void answer_for_lent(const LentAnswers& answers) noexcept { registered.store(&answers, std::memory_order_release); }

bool settle_lent() {
  const auto* const answers = registered.load(std::memory_order_acquire);
  return answers && answers->settle();
}

Lent lent_of(const MemoryResource& resource) {
  LentList list(resource);
  if (const auto* const answers = registered.load(std::memory_order_acquire)) answers->list(list);
  return list.count();
}

void count_lent(const MemoryResource& resource, ResourceStats& stats) {
  if (!resource.is_exportable()) return;
  const Lent lent = lent_of(resource);
  stats.leased = lent.bytes;
  stats.leased_buffers = lent.buffers;
  stats.leased_closed = lent.closed_bytes;
  stats.leased_closed_buffers = lent.closed_buffers;
}

void tell_of_lent(const MemoryResource& resource, Shortage& shortage) {
  if (!resource.is_exportable()) return;
  const Lent lent = lent_of(resource);
  shortage.leased = lent.closed_bytes;
  shortage.leased_buffers = lent.closed_buffers;
  shortage.leased_to = names_of(lent.to);
}

}  // namespace weir::detail
