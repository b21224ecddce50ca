// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a program means: the bytes, and whether each step is defined where it stands. A step is refused when
// an object is not there, when two conflicting accesses have no order, or when a host would wait behind a
// gate that it must open itself. The order of the text is one of the possible orders of a program without
// refused steps, so its bytes are those of playing the lines one after another.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cells.hpp"
#include "clock.hpp"
#include "program.hpp"
#include "weir/device.hpp"

namespace weir::test::random {

/// Why a step has no defined result where it stands.
struct Undefined {
  std::string why;
  std::vector<std::size_t> unordered;  ///< agents whose work conflicts with it
};

/// Kind of memory as far as it matters here.
struct Traits {
  Device device;
  KindInfo info;
  bool exportable = false;
  bool external = false;  ///< imported: copies of it come from the device's default resource
};

class Model {
 public:
  struct Agent {
    int process;
    bool host;                     ///< the process's own thread; else a stream
    std::optional<Device> device;  ///< of a stream
    std::uint64_t stream;          ///< its number in the text
    bool dropped = false;
    std::uint32_t step = 0;
    Moment now;
    std::vector<Moment> past;  ///< after each step, from step 1
  };
  struct Resource {
    int process;
    Traits traits;
    std::string mode;
    bool forgotten = false;
  };
  struct Block {
    int process;
    std::size_t memory;  ///< index
    std::size_t home;    ///< agent of the allocation stream
    Traits traits;
    std::optional<std::uint64_t> resource;  ///< none for what is imported
    std::optional<std::uint64_t> tensor;    ///< imported from it
    std::size_t owners = 1;
    std::map<std::size_t, std::uint32_t> uses = {};    ///< recorded by weir, on other streams than home
    std::map<std::size_t, std::uint32_t> untold = {};  ///< not recorded yet
    bool late_uses = false;                            ///< a deleter records one on some thread
  };
  struct Handle {
    int process;
    std::size_t block;   ///< index
    std::size_t offset;  ///< in the memory
    std::size_t size;
    bool closed = false;
  };
  struct Point {
    int process;
    Moment moment;
  };
  struct Gate {
    int process;
    bool open = false;
  };
  struct Tensor {
    int process;
    std::size_t block, offset, size, consumer;
    bool imported = false, deleted = false;
  };
  struct Parcel {
    int to;
    std::size_t memory, offset, size;
    Traits traits;
    Moment ready;
    Clock sender;
    bool received = false;
  };

  Model();
  /// Take the step. Throws Undefined, then nothing has changed.
  void apply(const Op& op);
  /// What the last step that reads has seen.
  [[nodiscard]] const std::vector<Cell>& seen() const { return seen_; }

  /// Every handle that is still open, with what all of it holds when everything has come to an end.
  [[nodiscard]] std::vector<Cell> content(const Handle& handle) const;
  [[nodiscard]] Gates closed_gates() const { return closed_; }
  /// Gates that the agent certainly or perhaps stands behind.
  [[nodiscard]] Gates behind(const Agent& agent) const { return (agent.now.must | agent.now.may) & closed_; }
  /// Whether the process knows that everything on the agent so far is complete.
  [[nodiscard]] bool finished(int process, std::size_t agent) const;
  [[nodiscard]] std::size_t agent_of(std::uint64_t stream) const { return streams_.at(stream); }

  // For whoever writes programs.
  std::vector<Agent> agents;  ///< 0 and 1: the processes
  std::vector<Cells> memories;
  std::vector<Block> blocks;
  std::map<std::uint64_t, Resource> resources;
  std::map<std::uint64_t, Handle> handles;
  std::map<std::uint64_t, Point> events;
  std::map<std::uint64_t, Gate> gates;
  std::map<std::uint64_t, Tensor> tensors;
  std::map<std::uint64_t, Parcel> parcels;

 private:
  class Step;
  std::map<std::uint64_t, std::size_t> streams_;
  std::vector<Cell> seen_;
  Gates closed_ = 0;
};

}  // namespace weir::test::random
