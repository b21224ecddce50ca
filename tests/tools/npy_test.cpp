// SPDX-License-Identifier: Apache-2.0
// Headers of NumPy's files: which element type each of NumPy's names means.

#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "expect.hpp"
#include "weir/npy.hpp"

namespace weir::cli {
namespace {

struct Named {
  DType type;
  const char* numpys;
};
constexpr Named types[] = {{i8, "|i1"},  {i16, "<i2"}, {i32, "<i4"},   {i64, "<i8"},  {u8, "|u1"},
                           {u16, "<u2"}, {u32, "<u4"}, {u64, "<u8"},   {f16, "<f2"},  {f32, "<f4"},
                           {f64, "<f8"}, {c64, "<c8"}, {c128, "<c16"}, {bool8, "|b1"}};

// The bytes before the elements, as version 1.0 of the format has them.
std::string header(const std::string& dictionary) {
  return std::string("\x93NUMPY\1\0", 8) + static_cast<char>(dictionary.size()) + '\0' + dictionary;
}

TEST(NumpyFiles, SayWhichTypeTheyHave) {
  for (const Named& one : types) {
    const std::string said = npy_header(Layout::compact(one.type, {2, 3}));
    const std::string wanted =
        "{'descr': '" + std::string(one.numpys) + "', 'fortran_order': False, 'shape': (2, 3), }";
    EXPECT_NE(said.find(wanted), std::string::npos) << said;
  }
}

TEST(NumpyFiles, AreOfTheTypeThatTheySay) {
  for (const Named& one : types) {
    std::istringstream file(
        header("{'descr': '" + std::string(one.numpys) + "', 'fortran_order': False, 'shape': (2, 3), }\n"));
    const Layout read = read_npy_header(file);
    EXPECT_EQ(read.dtype, one.type) << one.numpys;
    EXPECT_EQ(read.shape, (std::vector<std::int64_t>{2, 3}));
  }
}

TEST(NumpyFiles, HaveNotEveryType) {
  EXPECT_ERROR(npy_header(Layout::compact(bf16, {1})), Errc::unsupported, "bfloat16");
  std::istringstream big_endian(header("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }\n"));
  EXPECT_ERROR(read_npy_header(big_endian), Errc::invalid_argument, ">f4");
}

}  // namespace
}  // namespace weir::cli
