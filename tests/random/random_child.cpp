// SPDX-License-Identifier: Apache-2.0
// Plays programs: random_child play <seconds>, texts on descriptor 3. It starts random_child peer for the
// part of the second process. Each text is answered by "held" or by what went wrong; after that, and at the
// end of the stream, it ends. A line that takes longer than <seconds> ends it with that line on stderr.

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "crash.hpp"
#include "link.hpp"
#include "player.hpp"
#include "sink.hpp"
#include "spawn.hpp"
#include "watchdog.hpp"

namespace {

using namespace weir::test;
using namespace weir::test::random;

constexpr int channel = Child::socket_in_child;

/// Empty when the program held.
std::string play(int process, const Program& program, Link* link, Watchdog& watchdog) {
  // After a failure work may still be pending that writes to what the player owns.
  auto* player = new Player(process, program, link, [&](const std::string& line) { watchdog.watch(line); });
  std::string wrong;
  try {
    player->play();
    delete player;
  } catch (const std::exception& error) {
    wrong = error.what();
    if (wrong.empty()) wrong = "an exception without words";
  }
  watchdog.watch({});
  return wrong;
}

void be_peer(Watchdog& watchdog) {
  Link link(channel);
  for (std::string text; !(text = read_text(channel)).empty();) {
    if (!play(1, parse(text), &link, watchdog).empty()) return;
  }
}

bool needs_peer(const Program& program) {
  return std::any_of(program.begin(), program.end(), [](const Op& op) {
    return op.process == 1 || op.verb == Verb::connect || (op.verb == Verb::send && op.args.back() == 1);
  });
}

bool kills_peer(const Program& program) {
  return std::any_of(program.begin(), program.end(), [](const Op& op) { return op.verb == Verb::die; });
}

void be_player(const char* self, const std::string& seconds, Watchdog& watchdog) {
  std::optional<Child> peer;
  std::unique_ptr<Link> link;
  for (std::string text; !(text = read_text(channel)).empty();) {
    const Program program = parse(text);
    const bool both = needs_peer(program);
    if (both && !peer) {
      peer.emplace(self, std::vector<std::string>{"peer", seconds});
      link = std::make_unique<Link>(peer->socket());
    }
    if (both) write_text(peer->socket(), text);
    const std::string wrong = play(0, program, both ? link.get() : nullptr, watchdog);
    if (kills_peer(program)) peer.reset();
    write_text(channel, wrong.empty() ? "held" : wrong);
    if (!wrong.empty()) return;
  }
}

}  // namespace

int main(int argc, char** argv) {
  print_crashes();
  if (argc != 3) return 2;
  setenv("WEIR_VULKAN_VALIDATION", "1", 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a process that hangs in a driver must not outlive the tests
  install_sink();
  Watchdog watchdog(std::chrono::seconds(std::stol(argv[2])));
  try {
    if (std::string(argv[1]) == "peer") {
      be_peer(watchdog);
    } else {
      be_player(argv[0], argv[2], watchdog);
    }
  } catch (const std::exception& error) {
    write_text(channel, error.what());
  }
  fflush(nullptr);
  _exit(0);  // what failed may still be running
}
