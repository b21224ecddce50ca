// SPDX-License-Identifier: Apache-2.0
// A second process opens the buffer, finds its bytes, changes them, and the change is seen here. Depth is in ipc/.

#include "fixture.hpp"
#include "spawn.hpp"
#include "weir/ipc.hpp"

namespace weir::test {
namespace {

class Sharing : public OnMemory {};
WEIR_FOR_EACH_MEMORY(Sharing);

TEST_P(Sharing, WithASecondProcess) {
  Buffer buffer = filled(pattern(70001, 1));
  if (!resource->is_exportable()) {
    EXPECT_ERROR(buffer.ipc_descriptor(stream), Errc::unsupported, "export");
    return;
  }
  Child child(WEIR_CHILD_DIR "/import_child", {"rewrite", device().id(), "70001", "1"});
  ipc::send(child.socket(), buffer.ipc_descriptor(stream));
  EXPECT_EQ(child.line(), "done");
  EXPECT_EQ(child.wait(), 0);
  EXPECT_BYTES(read(buffer, stream), pattern(70001, 2));
}

}  // namespace
}  // namespace weir::test
