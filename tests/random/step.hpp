// SPDX-License-Identifier: Apache-2.0
#pragma once
// One step of a model: finds the objects it names, checks it, and then carries it out.

#include "model.hpp"

namespace weir::test::random {

class Model::Step {
 public:
  Step(Model& model, const Op& op) : m_(model), op_(op) {}
  void take();

 private:
  // Looking up; throws Undefined.
  static void require(bool condition, const char* why) {
    if (!condition) throw Undefined{why, {}};
  }
  std::size_t stream(std::size_t argument) const;
  Handle& handle(std::size_t argument) const;
  Block& block(const Handle& handle) const { return m_.blocks[handle.block]; }
  Tensor& tensor(std::size_t argument) const;
  Resource& resource(std::size_t argument) const;
  std::size_t host() const { return static_cast<std::size_t>(op_.process); }
  std::uint64_t arg(std::size_t i) const { return op_.args[i]; }
  template <class Map>
  void require_new(const Map& map) const {
    require(map.count(arg(0)) == 0, "the number is taken");
  }
  Range range(const Handle& handle, std::size_t offset, std::size_t bytes, bool write) const;
  void require_order(const Handle& handle, const Range& range, std::size_t agent) const;

  // Doing.
  std::uint32_t advance(std::size_t agent);
  void touch(const Handle& handle, const Range& range, std::size_t agent, bool recorded);
  void use(Block& block, std::size_t agent, std::uint32_t step);
  void follow_uses(const Block& block, std::size_t agent);
  std::size_t allocate(std::size_t bytes, std::size_t home, const Traits& traits,
                       std::optional<std::uint64_t> resource);
  /// `going` of the block's owners go at once.
  void require_covered(const Handle& handle, std::optional<std::size_t> closing_on, std::size_t going = 1) const;
  void drop_owner(Block& block);
  void put_bytes(const Handle& handle, std::size_t offset);

  void make_stream();
  void make_resource();
  void alloc();
  void access_on_stream();
  void copy();
  void assign();
  void copy_between(const Handle& to, std::size_t to_offset, const Handle& from, std::size_t from_offset,
                    std::size_t bytes, std::size_t agent);
  void clone();
  void slice(bool whole);
  void access_by_host();
  void call();
  void close(bool ordered);
  void record();
  void wait();
  void sync();
  void await();
  void gate();
  void trim();
  void export_tensor();
  void import_tensor();
  void delete_tensor();
  void look();
  void send();
  void receive();

  // step_channel.cpp
  Channel& channel(std::size_t argument) const;
  Shipment& next_shipment(std::size_t argument) const;
  void connect();
  void pack();
  void post();
  void take_shipment();
  void miss();
  void hang();
  void die();
  void require_covered(const std::vector<std::uint64_t>& packed) const;
  void require_independence() const;
  void require_arrived(const Channel& over) const;

  Model& m_;
  const Op& op_;
};

}  // namespace weir::test::random
