// SPDX-License-Identifier: Apache-2.0
// What a store of blocks keeps alive.
#include "memory/block_store.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "expect.hpp"
#include "weir/adaptors/limiting.hpp"
#include "weir/host.hpp"

namespace weir::test {
namespace {

class BlockStores : public testing::Test {
 protected:
  Stream stream{host_device()};
  detail::BlockStore store{host_device().state()};
  ResourcePtr resource = make_limiting(make_resource(host_device()), 1000);
  const std::weak_ptr<MemoryResource> watched = resource;
};

TEST_F(BlockStores, KeepTheirResourceWhileABlockIsOut) {
  spi::Block& first = store.take(*resource, stream);
  spi::Block& second = store.take(*resource, stream);
  resource.reset();
  store.put_back(first);
  EXPECT_FALSE(watched.expired());
  store.put_back(second);
  EXPECT_TRUE(watched.expired());
}

TEST_F(BlockStores, KeepNothingOfARefusal) {
  const Stream moved = std::move(stream);
  EXPECT_ERROR((void)store.take(*resource, stream), Errc::closed, "moved from");  // NOLINT(bugprone-use-after-move)
  resource.reset();
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace weir::test
