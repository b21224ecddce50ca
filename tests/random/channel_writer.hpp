// SPDX-License-Identifier: Apache-2.0
#pragma once
// Writes the steps of a random program that go over channels, and the end of a process.

#include "draft.hpp"

namespace weir::test::random {

class ChannelWriter {
 public:
  explicit ChannelWriter(Draft& draft) : draft_(draft), random_(draft.random), model_(draft.model) {}

  /// One of them, or a few that belong together.
  void step(int process);
  /// Process 1 dies, perhaps before work that process 0 was sent.
  void die();

 private:
  void leave_undone();
  std::optional<Number> some_open();
  std::optional<Number> next_for(int process);
  bool can_be_lent(int process, const Model::Handle& handle) const;
  void send(int process, Number channel, std::optional<Number> on);
  void take(int process, Number parcel);
  void reuse(int process, Number channel);
  void use(int process, Number buffer, Number stream);

  Draft& draft_;
  Random& random_;
  const Model& model_;
};

}  // namespace weir::test::random
