// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every header that serves all backends. What only one backend has is in host.hpp, cuda.hpp and vulkan.hpp; what joins
// weir to other libraries is in interop/.

#include "weir/adaptors/aligned.hpp"
#include "weir/adaptors/debug.hpp"
#include "weir/adaptors/failure_callback.hpp"
#include "weir/adaptors/limiting.hpp"
#include "weir/adaptors/logging.hpp"
#include "weir/adaptors/prefetch.hpp"
#include "weir/adaptors/statistics.hpp"
#include "weir/adaptors/tracking.hpp"
#include "weir/buffer.hpp"
#include "weir/callback_resource.hpp"
#include "weir/channel.hpp"
#include "weir/current_resource.hpp"
#include "weir/device.hpp"
#include "weir/device_vector.hpp"
#include "weir/dlpack.hpp"
#include "weir/error.hpp"
#include "weir/host_mirror.hpp"
#include "weir/ipc.hpp"
#include "weir/memory_resource.hpp"
#include "weir/mirrored_buffer.hpp"
#include "weir/padding.hpp"
#include "weir/pool.hpp"
#include "weir/stream.hpp"
#include "weir/tensor.hpp"
