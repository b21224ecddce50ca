// SPDX-License-Identifier: Apache-2.0
// Publications whose work will never be complete, because it waited for a process that was killed.

#include <chrono>
#include <utility>

#include "channel_processes.hpp"
#include "fixture.hpp"
#include "folder.hpp"
#include "sink.hpp"
#include "time_limits.hpp"
#include "weir/client.hpp"
#include "weir/server.hpp"
#include "weir/tensor.hpp"

namespace weir::test {
namespace {

using namespace std::chrono_literals;

const std::chrono::seconds limit = answer_limit();

class NamesLost : public OnMemory {};
WEIR_FOR_EACH_EXPORTABLE(NamesLost);

TEST_P(NamesLost, ThePublicationIsRefusedAndNobodyIsCutOff) {
  const Folder folder;
  ipc::Server server(folder / "server");
  ChannelChild child("late", device(), 1);
  ipc::Channel channel = child.connect();
  ASSERT_EQ(child.line(), "sent");
  const Stream doomed(device());
  const ipc::Parcel waited_for = channel.receive(doomed, limit);
  server.publish("doomed", filled(pattern(100, 1)), doomed);
  server.publish("good", filled(pattern(100, 2)), stream);
  ipc::Client client(folder / "server", limit);
  EXPECT_BYTES(read(client.get("good", stream, limit).buffer(), stream), pattern(100, 2));
  const Event end = doomed.record();
  child.kill();
  ASSERT_EQ(end.wait(limit), WaitStatus::lost);
  EXPECT_EQ(await_reports(3).size(), 3U) << "the point, and the streams that waited for it, here and in the server";
  for (int i = 0; i < 2; ++i) {
    EXPECT_ERROR(client.get("doomed", stream, limit), Errc::unsupported, "is lost");
    EXPECT_BYTES(read(client.get("good", stream, limit).buffer(), stream), pattern(100, 2));
  }
}

}  // namespace
}  // namespace weir::test
