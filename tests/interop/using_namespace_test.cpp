// SPDX-License-Identifier: Apache-2.0
// `using namespace weir` beside CCCL's namespace cuda. A name that both have has to say whose it is, from the outside
// or by an alias. The directive comes after the headers: CCCL's own stand it no better.
#include <cuda/buffer>

#include <gtest/gtest.h>

#include "weir/cuda.hpp"
#include "weir/interop/cccl.hpp"
#include "weir/weir.hpp"

using namespace weir;  // NOLINT(google-build-using-namespace): that is what this is about

TEST(UsingNamespaceWeir, NamesFromTheOutsideSayWhoseTheyAre) {
  EXPECT_THROW((void)::weir::cuda::make_pinned_resource(host_device()), Error);
  EXPECT_EQ(::cuda::stream_ref{::cudaStream_t{}}.get(), nullptr);
}

namespace application {
namespace {

namespace cuda = ::cuda;  // NVIDIA's is meant by the bare name; ours is weir::cuda
using namespace weir;     // NOLINT(google-build-using-namespace)

using Memory = cuda::mr::any_resource<cuda::mr::device_accessible>;
static_assert(cuda::mr::resource_with<cccl::DeviceResource, cuda::mr::device_accessible>);

TEST(UsingNamespaceWeir, AnAliasDecidesForTheBareName) {
  EXPECT_EQ(cuda::stream_ref{::cudaStream_t{}}.get(), nullptr);
  EXPECT_THROW((void)weir::cuda::make_pinned_resource(host_device()), Error);
  EXPECT_THROW((void)Memory(cccl::DeviceResource(make_resource(host_device()))), Error);
}

}  // namespace
}  // namespace application
