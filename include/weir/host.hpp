// SPDX-License-Identifier: Apache-2.0
#pragma once
// Resources in ordinary host memory. They never touch a GPU driver.

#include "weir/memory_resource.hpp"

namespace weir::host {

struct PageableOptions {
  bool huge_pages = false;  ///< ask for transparent huge pages from 2 MiB on; a hint
};

/// Ordinary memory, at least 256-byte aligned. DLPack label: CPU.
[[nodiscard]] ResourcePtr make_pageable_resource(const PageableOptions& options = {});

/// Sealed memfd segments (no truncation under a reader) that can be given to other processes. DLPack label: CPU.
[[nodiscard]] ResourcePtr make_shared_resource();

}  // namespace weir::host
