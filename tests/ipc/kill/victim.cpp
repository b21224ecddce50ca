// SPDX-License-Identifier: Apache-2.0
#include "victim.hpp"

#include <signal.h>

#include <stdexcept>
#include <utility>
#include <vector>

#include "watchdog.hpp"
#include "weir/channel.hpp"
#include "weir/ipc.hpp"

namespace weir::test {

Victim::Victim(std::string_view role, const Device& device, const std::string& path, std::uint64_t kill_before)
    : child_(WEIR_CHILD_DIR "/kill_child", {std::string(role), device.id(), path}), kill_before_(kill_before) {
  Watchdog::note_progress();
  if (needs_socket(role)) {
    auto [mine, theirs] = ipc::Channel::make_sockets();
    std::vector<spi::UniqueFd> files;
    files.push_back(std::move(theirs));
    ipc::send(child_.socket(), ipc::Descriptor(Bytes(ipc::Descriptor::size), std::move(files)));
    socket_ = std::move(mine);
  }
  const std::string said = line();
  if (said.empty()) throw std::runtime_error("kill_child ended before it began: " + std::to_string(child_.wait()));
  if (said != "ready") throw std::runtime_error("kill_child begins with " + said);
}

void Victim::go() {
  tracer_.emplace(child_.id(), kill_before_);
  say("go");
}

void Victim::say(std::string_view what) const {
  try {
    child_.say(what);
  } catch (const std::runtime_error&) {  // it is dead
  }
}

// The tracer is the first to see the end, and leaves the process to its parent.
std::uint64_t Victim::end() {
  if (!tracer_) return 0;
  if (child_.id() > 0) (void)::kill(child_.id(), SIGKILL);
  const auto calls = tracer_->finish();
  child_.kill();
  return calls;
}

}  // namespace weir::test
