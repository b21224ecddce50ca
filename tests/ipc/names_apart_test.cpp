// SPDX-License-Identifier: Apache-2.0
// A server and a client in different namespaces, as those of two containers that share a folder.

#include <numeric>
#include <string>
#include <vector>

#include "fixture.hpp"
#include "folder.hpp"
#include "spawn.hpp"
#include "weir/memory_resource.hpp"
#include "weir/server.hpp"
#include "weir/tensor.hpp"

namespace weir::test {
namespace {

// A program in user, process, IPC and network namespaces of its own, which dies when this Child is killed.
std::vector<std::string> apart(std::vector<std::string> program) {
  std::vector<std::string> all{"--user", "--map-root-user", "--ipc", "--net", "--pid", "--fork", "--kill-child"};
  all.insert(all.end(), program.begin(), program.end());
  return all;
}

TEST(NamesApart, AContainerThatSharesTheFolderSharesTheTensors) {
  constexpr char unshare[] = "/usr/bin/unshare";
  if (Child(unshare, apart({"/bin/true"})).wait() != 0) GTEST_SKIP() << "unshare makes no namespaces here";
  Folder folder;
  ipc::Server server(folder / "server");
  const Stream stream(host_device());
  std::vector<float> numbers(15);
  std::iota(numbers.begin(), numbers.end(), 0.F);
  Buffer buffer = make_resource(host_device(), MemoryKind::shared, {.exportable = true})->allocate(60, stream);
  write(buffer, std::as_bytes(std::span(numbers)), stream);
  server.publish("tensor", buffer.view(f32, {3, 5}), stream);
  Child child(unshare, apart({WEIR_CHILD_DIR "/names_child", "rewrite", "host:0", folder / "server"}));
  EXPECT_EQ(child.line(), "done");
  EXPECT_EQ(child.wait(), 0);
  for (float& number : numbers) ++number;
  EXPECT_BYTES(read(buffer, stream), std::as_bytes(std::span(numbers)));
}

}  // namespace
}  // namespace weir::test
