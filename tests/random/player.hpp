// SPDX-License-Identifier: Apache-2.0
#pragma once
// Plays one process's part of a program with the library and compares every byte it reads with the model.

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "bytes.hpp"
#include "gate.hpp"
#include "link.hpp"
#include "model.hpp"
#include "weir/buffer.hpp"
#include "weir/channel.hpp"
#include "weir/tensor.hpp"

namespace weir::test::random {

class Player {
 public:
  /// `watch` is told each line before it is played. `link` may be null when only process 0 has a part.
  Player(int process, const Program& program, Link* link, std::function<void(const std::string&)> watch)
      : process_(process), program_(program), link_(link), watch_(std::move(watch)) {}

  /// Throws std::runtime_error naming the line, PeerFailed when the other process did.
  void play();

 private:
  /// Bytes that a step reads some time after it is put.
  struct Reading {
    std::size_t line;
    std::size_t agent;
    std::uint32_t step;
    std::vector<Cell> expected;
    Bytes bytes;
    bool checked = false;
  };

  void take(const Op& op);
  void take_memory(const Op& op);
  void take_order(const Op& op);
  void take_tensor(const Op& op);
  void take_channel(const Op& op);  // player_channel.cpp
  void connect(const Op& op);
  void receive_parcel(const Op& op);
  void miss_parcel(const Op& op);
  void see_death();
  void ask_dead_peer();
  void make_resource(const Op& op);
  void call(const Op& op);
  void probe(bool done, const Moment& moment) const;
  Reading& expect_reading();
  void check_finished();
  void check(const Reading& reading) const;
  void finish();
  void await_deleters();
  static void give_back(MemoryResource& resource);
  void meet();
  void at(const std::string& what);
  std::string origin(std::span<const std::byte> bytes, std::size_t from) const;

  int process_;
  const Program& program_;
  Link* link_;
  std::function<void(const std::string&)> watch_;
  Model model_;
  std::size_t line_ = 0;
  std::string where_;
  bool lose_next_ = false;
  std::size_t meetings_ = 0;

  std::deque<Reading> readings_;  ///< addresses stay; outlives the streams below
  std::map<std::uint64_t, std::unique_ptr<Gate>> gates_;
  std::map<std::uint64_t, ResourcePtr> resources_;
  std::vector<ResourcePtr> all_resources_;
  std::map<std::uint64_t, Stream> streams_;
  std::vector<Event> ends_;  ///< of work on streams that were dropped
  std::map<std::uint64_t, Event> events_;
  std::map<std::uint64_t, Buffer> buffers_;
  std::map<std::uint64_t, std::pair<ManagedTensor, Stream>> tensors_;
  std::map<std::uint64_t, ipc::Descriptor> parcels_;
  std::map<std::uint64_t, ipc::Channel> channels_;
  std::map<std::uint64_t, std::vector<ipc::Parcel>> packed_;  ///< by channel
};

}  // namespace weir::test::random
