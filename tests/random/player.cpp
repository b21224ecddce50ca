// SPDX-License-Identifier: Apache-2.0
#include "player.hpp"

#include <dlpack/dlpack.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "recycling.hpp"
#include "settle.hpp"
#include "sink.hpp"
#include "weir/dlpack.hpp"
#include "weir/leases.hpp"
#include "weir/pool.hpp"
#if WEIR_HAS_VULKAN
#include "weir/vulkan.hpp"
#endif

namespace weir::test::random {
namespace {

// Segments so small that programs fill several.
ResourcePtr pool_over(ResourcePtr upstream, ReusePolicy reuse) {
  const bool exportable = upstream->is_exportable();
  return make_pool(std::move(upstream),
                   {.segment_bytes = std::size_t{16} << 10, .reuse = reuse, .exportable = exportable});
}

// Mapped memory need not be coherent; the host itself may use a GPU API, unlike a host function.
void before_peek([[maybe_unused]] const Buffer& buffer) {
#if WEIR_HAS_VULKAN
  if (buffer.device().backend() == "vulkan") vulkan::invalidate(buffer);
#endif
}
void after_poke([[maybe_unused]] const Buffer& buffer) {
#if WEIR_HAS_VULKAN
  if (buffer.device().backend() == "vulkan") vulkan::flush(buffer);
#endif
}

std::byte* address(const Buffer& buffer) {
  if (!buffer.host_data()) throw std::runtime_error("the buffer has no address for the host");
  return buffer.host_data();
}

void require_silence() {
  for (const Reported& report : take_reports()) {
    throw std::runtime_error("reported to the failure sink by " + report.where + ": " + report.message);
  }
#if WEIR_HAS_VULKAN
  if (vulkan::validation_errors() != 0) throw std::runtime_error("Vulkan validation found errors; see above");
#endif
}

bool is_of_both(const Op& op) { return op.verb == Verb::meet || op.verb == Verb::connect || op.verb == Verb::die; }

}  // namespace

void Player::play() {
  try {
    for (line_ = 0; line_ < program_.size(); ++line_) {
      const Op& op = program_[line_];
      if (op.process == process_ || is_of_both(op)) at(to_text(op));
      try {
        model_.apply(op);
      } catch (const Undefined& undefined) {
        throw std::runtime_error("not a program: " + undefined.why);
      }
      if (op.verb == Verb::meet) {
        meet();
      } else if (op.verb == Verb::connect) {
        connect(op);
      } else if (op.verb == Verb::die) {
        see_death();
      } else if (op.process == process_) {
        if (!std::exchange(lose_next_, false)) take(op);
      }
    }
    finish();
  } catch (const PeerFailed&) {
    throw;
  } catch (const std::exception& error) {
    const std::string why = "process " + std::to_string(process_) + ", " + where_ + ": " + error.what();
    if (link_) link_->fail(why);
    if (const auto* of_weir = dynamic_cast<const Error*>(&error); link_ && of_weir && of_weir->code() == Errc::peer_gone) {
      link_->await_failure();  // throws what it says, if its failure came first
    }
    throw std::runtime_error(why);
  }
}

void Player::at(const std::string& what) {
  where_ =
      (line_ < program_.size() ? "line " + std::to_string(line_ + 1) + " `" : "after the last line `") + what + '`';
  watch_("process " + std::to_string(process_) + ", " + where_);
}

void Player::take(const Op& op) {
  switch (op.verb) {
    case Verb::stream: streams_.emplace(op.args[0], Stream(device(op.words[0]))); return;
    case Verb::resource: return make_resource(op);
    case Verb::drop: {
      auto dropped = streams_.extract(op.args[0]);
      ends_.push_back(dropped.mapped().record());
      return;
    }
    case Verb::forget: resources_.erase(op.args[0]); return;
    case Verb::trim: (void)resources_.at(op.args[0])->trim(0); return;
    case Verb::lose: lose_next_ = true; return;
    case Verb::record:
    case Verb::wait:
    case Verb::sync:
    case Verb::await:
    case Verb::probe:
    case Verb::ask:
    case Verb::gate:
    case Verb::hold:
    case Verb::open: return take_order(op);
    case Verb::export_tensor:
    case Verb::import_tensor:
    case Verb::delete_tensor:
    case Verb::look:
    case Verb::send:
    case Verb::receive: return take_tensor(op);
    case Verb::pack:
    case Verb::post:
    case Verb::take:
    case Verb::miss:
    case Verb::hang: return take_channel(op);
    default: return take_memory(op);
  }
}

void Player::make_resource(const Op& op) {
  const Device on = device(op.words[0]);
  for (const KindInfo& info : on.kinds()) {
    if (to_string(info.kind) != op.words[1]) continue;
    ResourcePtr made = weir::make_resource(on, info.kind, {.exportable = op.words[2] == "exportable"});
    if (op.words[3] == "passed") made = std::make_shared<Recycling>(std::move(made), Reuse::passed);
    if (op.words[3] == "ordered") made = std::make_shared<Recycling>(std::move(made), Reuse::ordered);
    if (op.words[3] == "pool_passed") made = pool_over(std::move(made), ReusePolicy::passed_only);
    if (op.words[3] == "pool_ordered") made = pool_over(std::move(made), ReusePolicy::wait_rather_than_grow);
    all_resources_.push_back(made);
    resources_.emplace(op.args[0], std::move(made));
    return;
  }
}

void Player::take_memory(const Op& op) {
  const auto& a = op.args;
  const auto stream = [&](std::size_t i) -> const Stream& { return streams_.at(a[i]); };
  switch (op.verb) {
    case Verb::alloc: buffers_.emplace(a[0], resources_.at(a[1])->allocate(a[2], stream(4), a[3])); return;
    case Verb::write: buffers_.at(a[0]).copy_from(bytes_of(op), stream(4), a[1]); return;
    case Verb::read: buffers_.at(a[0]).copy_to(expect_reading().bytes, stream(3), a[1]); return;
    case Verb::copy: buffers_.at(a[2]).copy_to(buffers_.at(a[0]), a[1], a[3], a[4], stream(5)); return;
    case Verb::assign: buffers_.at(a[0]).copy_from(buffers_.at(a[1]), stream(2)); return;
    case Verb::clone: buffers_.emplace(a[0], buffers_.at(a[1]).copy_to(stream(2))); return;
    case Verb::fill: buffers_.at(a[0]).fill_pattern(fill_pattern_of(op), a[3], a[1], a[2], stream(5)); return;
    case Verb::share: buffers_.emplace(a[0], buffers_.at(a[1]).share()); return;
    case Verb::slice: buffers_.emplace(a[0], buffers_.at(a[1]).slice(a[2], a[3])); return;
    case Verb::poke: {
      const Bytes bytes = bytes_of(op);
      if (bytes.empty()) return;
      std::copy(bytes.begin(), bytes.end(), address(buffers_.at(a[0])) + a[1]);
      return after_poke(buffers_.at(a[0]));
    }
    case Verb::peek: {
      if (a[2] == 0) return;
      before_peek(buffers_.at(a[0]));
      Reading& reading = expect_reading();
      std::copy_n(address(buffers_.at(a[0])) + a[1], a[2], reading.bytes.begin());
      reading.checked = true;
      return check(reading);
    }
    case Verb::call_write:
    case Verb::call_read: return call(op);
    case Verb::close: buffers_.extract(a[0]).mapped().close(); return;
    case Verb::close_on: buffers_.extract(a[0]).mapped().close(stream(1)); return;
    default: throw std::logic_error("no such step");
  }
}

// Work outside weir: nothing but the address goes along, so only what the buffer was told keeps the memory.
void Player::call(const Op& op) {
  Buffer& buffer = buffers_.at(op.args[0]);
  const Stream& stream = streams_.at(op.args.back());
  std::byte* const place = address(buffer) + op.args[1];
  if (op.verb == Verb::call_write) {
    stream.call([place, bytes = bytes_of(op)] { std::copy(bytes.begin(), bytes.end(), place); });
  } else {
    stream.call([place, &to = expect_reading().bytes] { std::copy_n(place, to.size(), to.begin()); });
  }
  if (op.words[0] == "told") buffer.use_on(stream);
}

void Player::take_order(const Op& op) {
  const auto& a = op.args;
  switch (op.verb) {
    case Verb::record: events_[a[0]] = streams_.at(a[1]).record(); return;
    case Verb::wait: streams_.at(a[0]).wait(events_.at(a[1])); return;
    case Verb::sync:
      streams_.at(a[0]).synchronize();
      if (!streams_.at(a[0]).done()) throw std::runtime_error("the stream is not done after synchronize");
      return check_finished();
    case Verb::await:
      events_.at(a[0]).wait();
      if (!events_.at(a[0]).done()) throw std::runtime_error("the event is not done after wait");
      return check_finished();
    case Verb::probe: return probe(streams_.at(a[0]).done(), model_.agents[model_.agent_of(a[0])].now);
    case Verb::ask: return probe(events_.at(a[0]).done(), model_.events.at(a[0]).moment);
    case Verb::gate: gates_.emplace(a[0], std::make_unique<Gate>()); return;
    case Verb::hold: gates_.at(a[1])->hold(streams_.at(a[0])); return;
    case Verb::open: gates_.at(a[0])->open(); return;
    default: throw std::logic_error("no such step");
  }
}

// The other process may have opened its gates already.
void Player::probe(bool done, const Moment& moment) const {
  Gates ours = 0;
  for (const auto& [number, gate] : model_.gates) {
    if (gate.process == process_ && !gate.open) ours |= Gates{1} << number;
  }
  if (done && (moment.must & ours) != 0) throw std::runtime_error("done, although a gate before it is closed");
}

void Player::take_tensor(const Op& op) {
  const auto& a = op.args;
  switch (op.verb) {
    case Verb::export_tensor: {
      const Buffer& buffer = buffers_.at(a[1]);
      const Stream& consumer = streams_.at(a[2]);
      Tensor all = buffer.view(u8, {static_cast<std::int64_t>(buffer.size())});
      tensors_.emplace(a[0], std::pair{all.to_dlpack(consumer), consumer});
      return;
    }
    case Verb::import_tensor: {
      auto taken = tensors_.extract(a[1]);
      Tensor tensor = from_dlpack(taken.mapped().first.release(), streams_.at(a[2]));
      buffers_.emplace(a[0], std::move(tensor.buffer()));
      return;
    }
    case Verb::delete_tensor: tensors_.erase(a[0]); return;
    case Verb::look: {
      const auto& [managed, consumer] = tensors_.at(a[0]);
      const auto* place = static_cast<const std::byte*>(managed.get()->dl_tensor.data) + a[1];
      consumer.call([place, &to = expect_reading().bytes] { std::copy_n(place, to.size(), to.begin()); });
      if (model_.agents[model_.tensors.at(a[0]).consumer].dropped) ends_.push_back(consumer.record());
      return;
    }
    case Verb::send: {
      ipc::Descriptor descriptor = buffers_.at(a[1]).ipc_descriptor(streams_.at(a[2]));
      if (a[3] == static_cast<std::uint64_t>(process_)) {
        parcels_.emplace(a[0], std::move(descriptor));
      } else {
        link_->send(a[0], descriptor);
      }
      return;
    }
    case Verb::receive: {
      auto own = parcels_.extract(a[1]);
      ipc::Descriptor descriptor = own ? std::move(own.mapped()) : link_->receive(a[1]);
      Buffer opened = ipc::open(std::move(descriptor), streams_.at(a[2]));
      if (opened.size() != model_.parcels.at(a[1]).size) throw std::runtime_error("the buffer has another size");
      buffers_.emplace(a[0], std::move(opened));
      return;
    }
    default: throw std::logic_error("no such step");
  }
}

void Player::meet() {
  if (model_.alone) return check_finished();
  if (link_) link_->meet(++meetings_);
  check_finished();
}

// Everything comes to an end, is compared, and goes back to where it came from.
void Player::finish() {
  at("open all gates and wait");
  for (const auto& [number, gate] : gates_) gate->open();
  for (const Event& end : ends_) end.wait();
  for (const auto& [number, stream] : streams_) stream.synchronize();
  meet();
  for (const Reading& reading : readings_) {
    if (!reading.checked) check(reading);
  }
  const Stream last(host_device());
  for (const auto& [number, buffer] : buffers_) {
    at("all of b" + std::to_string(number));
    Reading all{line_, 0, 0, model_.content(model_.handles.at(number)), {}};
    all.bytes = read(buffer, last);
    check(all);
  }
  ask_dead_peer();
  at("close everything");
  meet();
  packed_.clear();
  channels_.clear();
  buffers_.clear();
  tensors_.clear();
  parcels_.clear();
  if (link_) link_->forget();
  streams_.clear();
  resources_.clear();
  await_deleters();
  for (const ResourcePtr& resource : all_resources_) {
    at("give back " + resource->name());
    give_back(*resource);
  }
  require_silence();
  at("end");
  meet();
}

// What a host function on a GPU's stream owned may end after the stream says that it is over, on a thread of the
// library. Once nothing is live, one trim() gives everything back.
void Player::give_back(MemoryResource& resource) {
  (void)ipc::wait_for_returns(resource);
  constexpr std::chrono::seconds certainly_wrong{10};
  const auto deadline = std::chrono::steady_clock::now() + certainly_wrong;
  for (;;) {
    const bool all_closed = resource.stats().live_buffers == 0;
    (void)resource.trim(0);
    const ResourceStats stats = resource.stats();
    if (stats.live_buffers == 0 && stats.in_use == 0 && stats.reserved == 0) return;
    if (all_closed || std::chrono::steady_clock::now() > deadline) {
      throw std::runtime_error(std::to_string(stats.live_buffers) + " buffers live, " + std::to_string(stats.in_use) +
                               " bytes in use, " + std::to_string(stats.reserved) + " reserved");
    }
    std::this_thread::yield();
  }
}

// The deleter of an import runs on a thread of the library when its uses have passed, and ends memory that
// may be an import as well, and of another device: each round waits for one more of them.
void Player::await_deleters() {
  const auto imported = [](const auto& tensor) { return tensor.second.imported; };
  for (auto left = std::count_if(model_.tensors.begin(), model_.tensors.end(), imported); left > 0; --left) {
    at("wait for the deleters of imports");
    await_releases();
  }
}

// ---- comparing --------------------------------------------------------------------------------------------

Player::Reading& Player::expect_reading() {
  const Op& op = program_[line_];
  std::size_t agent = static_cast<std::size_t>(process_);
  if (op.verb == Verb::look) {
    agent = model_.tensors.at(op.args[0]).consumer;
  } else if (op.verb != Verb::peek) {
    agent = model_.agent_of(op.args.back());
  }
  readings_.push_back({line_, agent, model_.agents[agent].step, model_.seen(), Bytes(model_.seen().size())});
  return readings_.back();
}

void Player::check_finished() {
  const Clock& known = model_.agents[static_cast<std::size_t>(process_)].now.clock;
  for (Reading& reading : readings_) {
    if (reading.checked || !known.covers(reading.agent, reading.step)) continue;
    reading.checked = true;
    check(reading);
  }
}

void Player::check(const Reading& reading) const {
  const auto differs = [&](std::size_t i) {
    return reading.expected[i] != anything && reading.expected[i] != std::to_integer<Cell>(reading.bytes[i]);
  };
  std::size_t first = reading.bytes.size(), wrong = 0;
  for (std::size_t i = 0; i < reading.bytes.size(); ++i) {
    if (!differs(i)) continue;
    first = std::min(first, i);
    ++wrong;
  }
  if (wrong == 0) return;
  std::string message;
  if (reading.line < program_.size()) {
    message = "what line " + std::to_string(reading.line + 1) + " `" + to_text(program_[reading.line]) + "` read: ";
  }
  message += std::to_string(wrong) + " of " + std::to_string(reading.bytes.size()) + " bytes are wrong; byte " +
             std::to_string(first) + " is " + std::to_string(std::to_integer<int>(reading.bytes[first])) +
             ", expected " + std::to_string(reading.expected[first]);
  throw std::runtime_error(message + origin(reading.bytes, first));
}

// Which line's bytes these are.
std::string Player::origin(std::span<const std::byte> bytes, std::size_t from) const {
  constexpr std::size_t longest = 8;
  const auto found = bytes.subspan(from, std::min(longest, bytes.size() - from));
  std::string lines;
  for (std::size_t i = 0; i < program_.size(); ++i) {
    const Bytes made = bytes_of(program_[i]);
    if (std::search(made.begin(), made.end(), found.begin(), found.end()) == made.end()) continue;
    lines += (lines.empty() ? "; found there: the bytes of line " : ", ") + std::to_string(i + 1);
  }
  return lines.empty() ? "; no line made what is there" : lines;
}

}  // namespace weir::test::random
