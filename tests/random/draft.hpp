// SPDX-License-Identifier: Apache-2.0
#pragma once
// A program while it is written: what is there to act on, and steps that are taken only if defined.

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "model.hpp"
#include "random.hpp"

namespace weir::test::random {

using Number = std::uint64_t;

class Draft {
 public:
  explicit Draft(std::uint64_t seed) : random(seed) {}

  /// Write the step if it is defined; mostly make it so, by ordering `stream` (else the process's host) after
  /// what conflicts.
  bool offer(int process, Verb verb, std::vector<Number> args, std::vector<std::string> words = {},
             std::optional<Number> stream = {});
  /// A number that no object has.
  Number fresh() { return ++last_; }

  /// A range of a buffer, which has that many bytes.
  struct Part {
    std::size_t offset, bytes;
  };
  Part some_part(std::size_t size) {
    if (size < 2 || random.chance(50)) return {0, size};
    const std::size_t offset = random.below(size);
    return {offset, random.between(1, size - offset)};
  }

  /// Write into part of a buffer, in some way.
  void put(int process, Number buffer, Part part, Number stream) {
    if (random.chance(60)) {
      offer(process, Verb::write, {buffer, part.offset, part.bytes, fresh(), stream}, {}, stream);
      return;
    }
    static const std::vector<std::size_t> widths{1, 2, 4, 8};
    const std::size_t width = random.pick(widths);
    const std::size_t bytes = part.bytes / width * width;
    if (bytes > 0)
      offer(process, Verb::fill, {buffer, part.offset, bytes, width, fresh(), stream}, {}, stream);
  }

  /// Close a gate, if one is left.
  std::optional<Number> new_gate(int process) {
    if (gates_ == most_gates || !offer(process, Verb::gate, {gates_})) return {};
    return gates_++;
  }

  // One of those that are there, or none.
  template <class Wanted>
  std::optional<Number> some_stream(int process, Wanted&& wanted) {
    std::vector<Number> found;
    for (const Model::Agent& agent : model.agents) {
      if (!agent.host && agent.process == process && !agent.dropped && wanted(agent))
        found.push_back(agent.stream);
    }
    return pick(found);
  }
  std::optional<Number> some_stream(int process) {
    return some_stream(process, [](const Model::Agent&) { return true; });
  }
  /// One that stands behind a closed gate.
  std::optional<Number> held_stream(int process) {
    return some_stream(process, [&](const Model::Agent& agent) { return model.behind(agent) != 0; });
  }
  std::optional<Number> free_stream(int process) {
    return some_stream(process, [&](const Model::Agent& agent) { return model.behind(agent) == 0; });
  }
  template <class Map, class Wanted>
  std::optional<Number> some(const Map& map, Wanted&& wanted) {
    std::vector<Number> found;
    for (const auto& [number, object] : map) {
      if (wanted(object)) found.push_back(number);
    }
    return pick(found);
  }
  std::optional<Number> some_buffer(int process) {
    return some(model.handles,
                [&](const Model::Handle& handle) { return handle.process == process && !handle.closed; });
  }
  std::optional<Number> some_resource(int process) {
    return some(model.resources, [&](const Model::Resource& resource) {
      return resource.process == process && !resource.forgotten;
    });
  }
  std::optional<Number> closed_gate(int process) {
    return some(model.gates, [&](const Model::Gate& gate) { return gate.process == process && !gate.open; });
  }

  const Model::Handle& handle(Number buffer) const { return model.handles.at(buffer); }
  const Model::Block& block(Number buffer) const { return model.blocks[handle(buffer).block]; }
  /// Open handles of the block.
  std::vector<Number> owners(std::size_t block) const;

  Random random;
  Model model;
  Program program;

 private:
  bool order(int process, std::size_t agent, std::optional<Number> stream);
  std::optional<Number> pick(const std::vector<Number>& found) {
    if (found.empty()) return {};
    return random.pick(found);
  }

  Number last_ = 0, gates_ = 0;
};

}  // namespace weir::test::random
