// SPDX-License-Identifier: Apache-2.0
// Clients that a server of names cannot take on.
#include <gtest/gtest.h>

#include <string>

#include "expect.hpp"
#include "folder.hpp"
#include "inject/system_calls.hpp"
#include "sink.hpp"
#include "time_limits.hpp"
#include "weir/client.hpp"
#include "weir/host.hpp"
#include "weir/server.hpp"

namespace weir::test {
namespace {

// It finds its connection closed at once, although the server has patience.
TEST(Admission, AClientThatCannotBeWatchedIsCutOff) {
  FailingSystemCalls calls(host_device());
  const Folder folder;
  const std::string path = folder / "server";
  const ipc::Server server(path, {.most_clients = 1, .patience = 2 * answer_limit()});
  const auto list = [&] { return ipc::Client(path, answer_limit()).list("*", answer_limit()).size(); };
  calls.arm_only("epoll_ctl", 1, 0);
  EXPECT_ERROR((void)list(), Errc::peer_gone, "the server is gone");
  EXPECT_TRUE(calls.disarm().has_value());
  EXPECT_EQ(list(), 0U) << "nobody has taken the only place";
  const auto reports = take_reports();
  ASSERT_EQ(reports.size(), 1U);
  EXPECT_NE(reports[0].message.find("ipc::Server: epoll_ctl"), std::string::npos) << reports[0].message;
}

}  // namespace
}  // namespace weir::test
