// SPDX-License-Identifier: Apache-2.0
// What a submitted batch is ordered after, and whether that is enough for what it touches.
#include <span>

#include "mapping.hpp"
#include "owned.hpp"
#include "world.hpp"

namespace judge {
namespace {

class Batch {
 public:
  explicit Batch(Queue& on) : queue_(on), number_(++world().batches), owned_(on) {
    // All that the host knows to be over comes before, and is visible.
    const Clock& over = world().host.over;
    for (Where where : {Where::copies, Where::shaders, Where::ownership})
      queue_.views[where].merge({over, over, over, over});
  }

  /// False when nobody has submitted the signal.
  bool wait(const Semaphore& semaphore, std::uint64_t value, VkPipelineStageFlags stages) {
    if (!semaphore.timeline || value <= semaphore.seen) return true;
    for (const Signal& signal : semaphore.signals) {
      if (signal.value < value) continue;
      const Scope second = second_scope(stages);
      for (Where where : all_places) {
        if (!second.orders(where)) continue;
        View& view = queue_.views[where];
        view.before.merge(signal.before);
        view.available.merge(signal.before);
        if (!second.accessed(where)) continue;
        view.read.merge(signal.before);
        view.written.merge(signal.before);
      }
      waited_.before.merge(signal.before);
      waited_.read.merge(signal.read);
      waited_.written.merge(signal.written);
      queue_.views[Where::host].read.merge(signal.read);
      queue_.views[Where::host].written.merge(signal.written);
      return true;
    }
    violation("vkQueueSubmit", "it waits for " + std::to_string(value) + " of semaphore " +
                                   std::to_string(semaphore.number) + ", whose signal is not submitted");
    return false;
  }

  void run(CommandBuffer& commands) {
    if (commands.state != CommandBuffer::State::executable)
      violation("vkQueueSubmit", "its commands are not recorded, or were submitted before");
    if (commands.once && !world().host.over.covers(commands.last))
      violation("vkQueueSubmit", "its commands are not known to be over since they were submitted last");
    if (commands.once) commands.state = CommandBuffer::State::spent;
    for (const Command& command : commands.commands) {
      if (const auto* touched = std::get_if<Touch>(&command)) {
        touch(*touched);
      } else {
        barrier(std::get<Barrier>(command));
      }
    }
    commands.last = Point{queue_.place, queue_.issued + 1};  // the batch's end, if no other commands follow
  }

  void end() {
    owned_.end();
    end_ = Point{queue_.place, ++queue_.issued};
    for (auto& buffer : buffers_) {
      buffer->uses.raise(end_);
      buffer->memory->uses.raise(end_);
    }
  }
  [[nodiscard]] Point point() const { return end_; }

  /// False when the semaphore has been further already.
  bool signal(Semaphore& semaphore, std::uint64_t value) {
    if (!semaphore.timeline) return true;
    if (value <= semaphore.last) {
      violation("vkQueueSubmit", "it signals " + std::to_string(value) + " of semaphore " +
                                     std::to_string(semaphore.number) + ", whose last signal is " +
                                     std::to_string(semaphore.last));
      return false;
    }
    Signal made{value, waited_.before, waited_.read, waited_.written};
    for (Where where : all_places) made.before.merge(queue_.views[where].before);
    made.before.raise(end_);
    made.read.merge(queue_.views[Where::host].read);
    made.written.merge(queue_.views[Where::host].written);
    semaphore.last = value;
    semaphore.signals.push_back(std::move(made));
    return true;
  }

 private:
  void touch(const Touch& touched) {
    const Access access{{queue_.place, queue_.issued + 1}, touched.call, number_};
    for (const Part& part : touched.parts) {
      host_to_device(*part.buffer->memory, part.begin, part.end, touched.call);
      owned_.check(part, access, touched.where);
      check(part, access, touched.where);
    }
    check_apart(touched);
    ++queue_.issued;
    note_place(touched.where);
    for (const Part& part : touched.parts) remember(part, access);
  }

  /// Nothing that one command writes may it touch in another way.
  static void check_apart(const Touch& touched) {
    std::vector<const Part*> parts;
    for (const Part& part : touched.parts) parts.push_back(&part);
    const auto place = [](const Part* part) { return std::pair(part->buffer->memory->payload.get(), part->begin); };
    std::ranges::sort(parts, {}, place);
    const Part *last = nullptr, *last_write = nullptr;  // those that reach furthest
    for (const Part* part : parts) {
      if (last && last->buffer->memory->payload != part->buffer->memory->payload) last = last_write = nullptr;
      const Part* const other = part->write ? last : last_write;
      if (other && part->begin < other->end)
        violation(touched.call, "its ranges overlap at " + bytes(part->begin, part->end, *part->buffer->memory));
      if (!last || last->end < part->end) last = part;
      if (part->write && (!last_write || last_write->end < part->end)) last_write = part;
    }
  }

  void check(const Part& part, const Access& access, Where where) const {
    const View& view = queue_.views[where];
    const Memory& memory = *part.buffer->memory;
    memory.payload->cells.look(part.begin, part.end, [&](const Cell& cell, Bytes begin, Bytes end) {
      const auto tell = [&](const Access& earlier, const char* did, const char* missing) {
        violation(access.call, "batch " + std::to_string(access.batch) + " on queue " +
                                   std::to_string(access.point.queue) + (part.write ? " writes " : " reads ") +
                                   bytes(begin, end, memory) + ", which " + describe(earlier) + did + ": " + missing);
      };
      if (cell.write.point.exists()) {
        const bool here = cell.shown.queue == queue_.place;
        const bool shown = here && (part.write ? cell.shown.written : cell.shown.read);
        if (!view.before.covers(cell.write.point))
          tell(cell.write, " wrote", "nothing orders the two");
        else if (!shown && !(part.write ? view.written : view.read).covers(cell.write.point))
          tell(cell.write, " wrote",
               view.available.covers(cell.write.point) || (here && cell.shown.available)
                   ? "ordered and available, but not visible to this access"
                   : "ordered, but the write is not made available");
      }
      if (!part.write) return;
      for (const Access& read : cell.reads) {
        if (!view.before.covers(read.point)) tell(read, " reads", "nothing orders the two");
      }
    });
  }

  void remember(const Part& part, const Access& access) {
    const auto& memory = part.buffer->memory;
    buffers_.insert(part.buffer);
    if (part.write) {
      memory->payload->cells.set(part.begin, part.end, Cell{access, {}, {}});
      device_wrote(memory, part.begin, part.end, access);
      return;
    }
    memory->payload->cells.change(part.begin, part.end, [&](Cell& cell) {
      std::erase_if(cell.reads, [&](const Access& read) {
        return read.point.queue == access.point.queue || world().host.over.covers(read.point);
      });
      cell.reads.push_back(access);
    });
  }

  void barrier(const Barrier& barrier) {
    Views& views = queue_.views;
    View from;
    for (Where where : all_places) {
      if (!barrier.first.orders(where)) continue;
      from.before.merge(views[where].before);
      from.available.merge(views[where].available);
    }
    const Point now = extended(from.before, [&](Where where) { return barrier.first.orders(where); });
    from.before.raise(now);

    // An ownership transfer alone orders only itself: its other side is ignored.
    bool orders = barrier.buffers.empty() || !barrier.global.empty();
    for (const auto& change : barrier.buffers) orders = orders || !is_transfer(change);
    for (Where where : all_places) {
      if (!orders || !barrier.second.orders(where)) continue;
      views[where].before.merge(from.before);
      views[where].available.merge(from.available);
    }
    for (const VkMemoryBarrier& global : barrier.global) {
      Clock made = from.available;
      made.raise(written_by(barrier, global.srcAccessMask, made, now));
      for (Where where : all_places) {
        if (!barrier.second.orders(where)) continue;
        views[where].available.merge(made);
        if (!barrier.second.accessed(where)) continue;
        if (names_reads(global.dstAccessMask, where)) views[where].read.merge(made);
        if (names_writes(global.dstAccessMask, where)) views[where].written.merge(made);
      }
    }
    owned_.pass_on(barrier);
    for (const auto& change : barrier.buffers) {
      buffers_.insert(change.part.buffer);
      const bool ends_writes = written_by(barrier, change.from, from.available, now).number == queue_.issued;
      if (is_transfer(change)) {
        owned_.transfer(barrier, change, from, ends_writes);
      } else {
        show(barrier, change, from.available, ends_writes);
      }
    }
  }

  void note_place(Where where) {
    auto& runs = queue_.runs;
    if (runs.back().where == where) return;
    const Number over = world().host.over.of(queue_.place);
    while (runs.size() > 1 && runs[1].first <= over) runs.erase(runs.begin());
    runs.push_back({queue_.issued, where});
  }

  /// The last of this queue's commands such that it and all before it are known already or happen where `named` says.
  template <class Named>
  [[nodiscard]] Point extended(const Clock& known, Named named) const {
    Number last = known.of(queue_.place);
    const auto& runs = queue_.runs;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const Number end = i + 1 < runs.size() ? runs[i + 1].first - 1 : queue_.issued;
      if (end <= last) continue;
      if (!named(runs[i].where)) break;
      last = end;
    }
    return {queue_.place, last};
  }

  /// Up to where the writes before `now` are available behind a barrier whose first side has this mask.
  [[nodiscard]] Point written_by(const Barrier& barrier, VkAccessFlags mask, const Clock& available, Point now) const {
    const Point all =
        extended(available, [&](Where where) { return barrier.first.accessed(where) && names_writes(mask, where); });
    return {all.queue, std::min(all.number, now.number)};
  }

  /// A barrier for the bytes of one buffer.
  void show(const Barrier& barrier, const Barrier::OfBuffer& change, const Clock& available, bool ends_writes) const {
    const bool reaches = barrier.second.accessed(Where::copies);
    const Part& part = change.part;
    part.buffer->memory->payload->cells.change(part.begin, part.end, [&](Cell& cell) {
      const bool made = available.covers(cell.write.point) || (ends_writes && cell.write.point.queue == queue_.place);
      if (!made) return;
      cell.shown = {queue_.place, true, reaches && names_reads(change.to, Where::copies),
                    reaches && names_writes(change.to, Where::copies)};
    });
  }

  Queue& queue_;
  const int number_;
  Owned owned_;
  Signal waited_;
  std::set<std::shared_ptr<Buffer>> buffers_;
  Point end_;
};

}  // namespace

void order(Queue& queue, Held& held) {
  auto& all = world();
  Batch batch(queue);
  const auto take_out = [](auto& list, std::size_t i) { list.erase(list.begin() + static_cast<std::ptrdiff_t>(i)); };
  for (std::size_t i = 0; i < held.waits.size();) {
    const auto* semaphore = find(all.semaphores, held.waits[i]);
    if (!semaphore || batch.wait(*semaphore, held.wait_values[i], held.stages[i])) {
      ++i;
      continue;
    }
    take_out(held.waits, i);
    take_out(held.wait_values, i);
    take_out(held.stages, i);
  }
  for (VkCommandBuffer handle : held.commands) {
    if (auto* commands = find(all.commands, handle)) batch.run(*commands);
  }
  batch.end();
  for (VkCommandBuffer handle : held.commands) {
    if (auto* commands = find(all.commands, handle)) commands->last = batch.point();
  }
  for (std::size_t i = 0; i < held.signals.size();) {
    auto* semaphore = find(all.semaphores, held.signals[i]);
    if (!semaphore || batch.signal(*semaphore, held.signal_values[i])) {
      ++i;
      continue;
    }
    take_out(held.signals, i);
    take_out(held.signal_values, i);
  }
  for (const auto& handles : {held.waits, held.signals}) {
    for (VkSemaphore handle : handles) {
      if (auto* semaphore = find(all.semaphores, handle)) semaphore->uses.raise(batch.point());
    }
  }
}

void seen(Semaphore& semaphore, std::uint64_t value) {
  auto& host = world().host;
  semaphore.seen = std::max(semaphore.seen, value);
  for (; !semaphore.signals.empty() && semaphore.signals.front().value <= value; semaphore.signals.pop_front()) {
    const Signal& signal = semaphore.signals.front();
    host.over.merge(signal.before);
    host.read.merge(signal.read);
    host.written.merge(signal.written);
  }
  device_to_host();
}

void seen_idle(Queue& queue) {
  auto& host = world().host;
  host.over.raise({queue.place, queue.issued});
  for (Where where : all_places) host.over.merge(queue.views[where].before);
  host.read.merge(queue.views[Where::host].read);
  host.written.merge(queue.views[Where::host].written);
  device_to_host();
}

}  // namespace judge
