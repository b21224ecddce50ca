// SPDX-License-Identifier: Apache-2.0
#pragma once
// What programs may link against.

/// Marks classes and functions that the library exports. Everything else in it is compiled with hidden visibility.
#define WEIR_API __attribute__((visibility("default")))
