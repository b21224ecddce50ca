// SPDX-License-Identifier: Apache-2.0
// Which bytes are a text that a stranger may say.
#include "ipc/text.hpp"

#include <gtest/gtest.h>

#include <string>

namespace weir::test {
namespace {

using detail::is_text;
using detail::to_text;

TEST(Text, IsUtf8WithoutControlCharacters) {
  for (const char* const good : {"", "a", " ~", "caf\xc3\xa9", "\xc2\xa0", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf",
                                 "\xee\x80\x80", "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
    EXPECT_TRUE(is_text(good)) << testing::PrintToString(good);
  for (const std::string& bad : {std::string(1, '\0'),
                                 std::string("a\n"),
                                 std::string("\x1b[2J"),
                                 std::string("\x7f"),
                                 std::string("\xc2\x80"),
                                 std::string("\xc2\x9b"),
                                 std::string("\xc2\x9f"),  // C1
                                 std::string("caf\xe9"),
                                 std::string("\xff"),
                                 std::string("\x80"),
                                 std::string("\xa5\x80"),
                                 std::string("\xc3"),
                                 std::string("\xc3("),
                                 std::string("\xe2\x82"),
                                 std::string("\xf0\x90\x80"),
                                 std::string("\xc0\xaf"),
                                 std::string("\xc1\xbf"),
                                 std::string("\xe0\x9f\xbf"),
                                 std::string("\xf0\x8f\xbf\xbf"),
                                 std::string("\xed\xa0\x80"),
                                 std::string("\xed\xbf\xbf"),  // surrogates
                                 std::string("\xf4\x90\x80\x80"),
                                 std::string("\xf5\x80\x80\x80"),
                                 std::string("\xfc\x90\x80\x80")})
    EXPECT_FALSE(is_text(bad)) << testing::PrintToString(bad);
}

TEST(Text, IsMadeOfAnyBytes) {
  EXPECT_EQ(to_text("a\nb\xff\xc3\xa9\xc3", 100), "a b \xc3\xa9 ");
  EXPECT_EQ(to_text("abc", 2), "ab");
  EXPECT_EQ(to_text("a\xc3\xa9", 2), "a") << "no half a character";
  EXPECT_EQ(to_text("a\xc3\xa9", 3), "a\xc3\xa9");
  EXPECT_EQ(to_text("a", 0), "");
}

}  // namespace
}  // namespace weir::test
