// SPDX-License-Identifier: Apache-2.0
// Servers take turns at replacing the socket of one that died. A race between them shows a missing turn only now and
// then, so these tests look at the lock in the calls that replace the socket.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <string>
#include <vector>

#include "dead_socket.hpp"
#include "folder.hpp"
#include "inject/system_calls.hpp"
#include "weir/server.hpp"
#include "weir/spi/unique_fd.hpp"

namespace weir::test {
namespace {

class Turns : public testing::Test {
 protected:
  Turns() {
    seen.clear();
    path = folder / "server";
    before_path_call = [](const char* call, const char* name) {
      if (name == path) seen.push_back(std::string(call) + (is_locked() ? " in turn" : ""));
    };
  }
  ~Turns() override { before_path_call = nullptr; }

  static bool is_locked() {
    const spi::UniqueFd file(::open((path + ".lock").c_str(), O_RDWR | O_CLOEXEC));
    return file && ::flock(file.get(), LOCK_EX | LOCK_NB) != 0;
  }

  const Folder folder;
  static inline std::string path;
  static inline std::vector<std::string> seen;
};

TEST_F(Turns, AreTakenAtTheSocketOfADeadServer) {
  leave_dead_socket(path);
  const ipc::Server server(path);
  EXPECT_EQ(seen, (std::vector<std::string>{"link", "unlink in turn", "link in turn"}));
}

TEST_F(Turns, AreNotNeededAtAFreePath) {
  const ipc::Server server(path);
  EXPECT_EQ(seen, std::vector<std::string>{"link"});
}

}  // namespace
}  // namespace weir::test
