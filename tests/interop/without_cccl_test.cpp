// SPDX-License-Identifier: Apache-2.0
// What is said where cccl_test.cpp cannot be compiled.
#include <gtest/gtest.h>

TEST(Cccl, IsNotHere) { GTEST_SKIP() << WEIR_WITHOUT_CCCL_BECAUSE; }
