// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a program means: the bytes, and whether each step is defined where it stands. A step is refused when
// an object is not there, when two conflicting accesses have no order, or when a host would wait behind a
// gate that it must open itself. The order of the text is one of the possible orders of a program without
// refused steps, so its bytes are those of playing the lines one after another.

#include <array>
#include <deque>
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
  bool read_only = false;
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
    bool borrowed = false;                             ///< came over a channel
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
    bool unsure = false;  ///< the sender died, and nobody knows whether its work was complete
  };
  /// Sent over a channel, or packed to be sent.
  struct Shipment : Parcel {
    std::uint64_t channel = 0;
    std::uint64_t seed = 0;  ///< of the payload
    std::size_t block = 0;   ///< index, at the sender
    bool never = false;      ///< the sender died before a gate that its work stands behind
  };
  struct Channel {
    struct End {
      bool hung = false;
      std::vector<std::uint64_t> packed = {};
      std::deque<std::uint64_t> coming = {};  ///< shipments to this end that nobody has taken
      std::uint32_t posted = 0;               ///< step of its process that last sent something
    };
    std::uint64_t window = 0;
    std::array<End, 2> ends = {};  ///< of the processes
    /// How many can be sent to that end without waiting for steps that come later. Of the credit that a sender has got
    /// back, it may not have heard of a quarter of the window.
    [[nodiscard]] std::size_t room(int to) const {
      const auto used = ends[static_cast<std::size_t>(to)].coming.size();
      const auto all = static_cast<std::size_t>(window - window / 4);
      return used < all ? all - used : 0;
    }
    [[nodiscard]] bool open() const { return !ends[0].hung && !ends[1].hung; }
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
  std::map<std::uint64_t, Channel> channels;
  std::map<std::uint64_t, Shipment> shipments;
  bool alone = false;  ///< process 1 is dead

 private:
  class Step;
  std::map<std::uint64_t, std::size_t> streams_;
  std::vector<Cell> seen_;
  Gates closed_ = 0;
};

}  // namespace weir::test::random
