// SPDX-License-Identifier: Apache-2.0
#pragma once
// Resources in ordinary host memory. They never touch a GPU driver.

#include "weir/export.hpp"
#include "weir/memory_resource.hpp"

/// Memory of the host.
namespace weir::host {

/// Options of make_pageable_resource.
struct PageableOptions {
  bool huge_pages = false;  ///< ask for transparent huge pages for memory of 2 MiB or more; only a hint
};

/// Make a resource of ordinary memory, aligned to at least 256 bytes. DLPack label: CPU.
[[nodiscard]] WEIR_API ResourcePtr make_pageable_resource(const PageableOptions& options = {});

/// Options of make_shared_resource.
struct SharedOptions {
  /// Seal the memory so that no other process can ever write it, whatever it does with the file that it gets. All that
  /// others open of it is read-only. This process writes it as before. Needs Linux 5.1.
  bool read_only_for_peers = false;
};

/// Make a resource of sealed memfd segments, which can be given to other processes. Because of the seal, no process can
/// truncate the memory under a reader. DLPack label: CPU.
[[nodiscard]] WEIR_API ResourcePtr make_shared_resource(const SharedOptions& options = {});

}  // namespace weir::host
