// SPDX-License-Identifier: Apache-2.0
#pragma once
// Everything. Typed accessors of one backend are apart: host.hpp, cuda.hpp, vulkan.hpp.

#include "weir/buffer.hpp"
#include "weir/device.hpp"
#include "weir/dlpack.hpp"
#include "weir/error.hpp"
#include "weir/ipc.hpp"
#include "weir/memory_resource.hpp"
#include "weir/resources/aligned.hpp"
#include "weir/resources/callback.hpp"
#include "weir/resources/current.hpp"
#include "weir/resources/debug.hpp"
#include "weir/resources/failure_callback.hpp"
#include "weir/resources/limiting.hpp"
#include "weir/resources/logging.hpp"
#include "weir/resources/pool.hpp"
#include "weir/resources/prefetch.hpp"
#include "weir/resources/statistics.hpp"
#include "weir/resources/tracking.hpp"
#include "weir/stream.hpp"
#include "weir/tensor.hpp"
