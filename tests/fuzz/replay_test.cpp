// SPDX-License-Identifier: Apache-2.0
// The corpora of all fuzz targets as ordinary tests, and a fixed number of mutations of them: no fuzzer is needed.
// WEIR_FUZZ_INPUT=FILE runs that file alone, through the target that its folder names.

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "bytes.hpp"
#include "target.hpp"

namespace weir::fuzz {
namespace {

namespace fs = std::filesystem;
using test::Bytes;

constexpr unsigned batches = 8;
constexpr unsigned mutations = 250;  // per batch

Bytes contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  Bytes bytes(text.size());
  std::transform(text.begin(), text.end(), bytes.begin(), [](char c) { return static_cast<std::byte>(c); });
  return bytes;
}

std::vector<fs::path> files_of(const Target& target) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(fs::path(WEIR_FUZZ_CORPUS) / target.name)) {
    files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string hexadecimal(const Bytes& bytes) {
  std::string text;
  for (const std::byte b : bytes) {
    text += "0123456789abcdef"[std::to_integer<unsigned>(b) >> 4U];
    text += "0123456789abcdef"[std::to_integer<unsigned>(b) & 15U];
  }
  return text;
}

/// A few changes such as a fuzzer makes: bits, numbers at the ends of their range, cuts, insertions, splices.
void mutate(Bytes& bytes, const Bytes& other, std::mt19937& random) {
  constexpr unsigned char telling[] = {0x00, 0x01, 0x7f, 0x80, 0xfb, 0xfc, 0xfd, 0xfe, 0xff};
  for (auto changes = 1 + random() % 6; changes > 0; --changes) {
    const std::size_t at = bytes.empty() ? 0 : random() % bytes.size();
    const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    const auto what = bytes.empty() ? 0 : random() % 6;
    if (what == 0) {
      bytes.insert(place, static_cast<std::byte>(random() & 0xffU));
    } else if (what == 1) {
      bytes.resize(at);
    } else if (what == 2) {
      bytes.erase(place);
    } else if (what == 3) {
      *place ^= static_cast<std::byte>(1U << random() % 8);
    } else if (what == 4) {
      const auto value = static_cast<std::byte>(telling[random() % std::size(telling)]);
      std::fill_n(place, std::min<std::size_t>(bytes.size() - at, std::size_t{1} << random() % 4), value);
    } else if (!other.empty()) {
      bytes.resize(at);
      bytes.insert(bytes.end(), other.begin() + static_cast<std::ptrdiff_t>(random() % other.size()), other.end());
    }
  }
}

void try_out(const Target& target, const Bytes& bytes) {
  try {
    run(target, bytes);
  } catch (const std::exception& error) {
    FAIL() << error.what() << "\ninput: " << hexadecimal(bytes);
  }
}

/// One test: a file of a target's corpus, or one batch of mutations of all of them.
struct Case {
  const Target* target;
  std::string name;
  fs::path file;
  unsigned batch = 0;
};

void PrintTo(const Case& each, std::ostream* out) { *out << each.target->name << ' ' << each.name; }

std::vector<Case> corpus() {
  std::vector<Case> cases;
  const char* only = std::getenv("WEIR_FUZZ_INPUT");
  for (const Target& target : targets()) {
    if (only && fs::path(only).parent_path().filename() != target.name) continue;
    for (const fs::path& file : only ? std::vector<fs::path>{only} : files_of(target)) {
      cases.push_back({&target, file.filename().string(), file});
    }
  }
  return cases;
}

std::vector<Case> all_batches() {
  std::vector<Case> cases;
  if (std::getenv("WEIR_FUZZ_INPUT")) return cases;
  for (const Target& target : targets()) {
    for (unsigned batch = 0; batch < batches; ++batch) cases.push_back({&target, std::to_string(batch), {}, batch});
  }
  return cases;
}

std::string name_of(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.target->name + '_' + info.param.name;
  std::replace_if(name.begin(), name.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
  return name;
}

class Fuzz : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override { target().run({}); }  // what the drivers open on first use stays open
  [[nodiscard]] static const Target& target() { return *GetParam().target; }
};
class FuzzCorpus : public Fuzz {};
class FuzzMutations : public Fuzz {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FuzzMutations);

TEST_P(FuzzCorpus, Replays) { try_out(target(), contents(GetParam().file)); }

TEST_P(FuzzMutations, Pass) {
  std::vector<Bytes> seeds;
  for (const fs::path& file : files_of(target())) seeds.push_back(contents(file));
  std::mt19937 random(GetParam().batch);
  for (unsigned i = 0; i < mutations && !HasFailure(); ++i) {
    Bytes bytes = seeds[random() % seeds.size()];
    mutate(bytes, seeds[random() % seeds.size()], random);
    SCOPED_TRACE("mutation " + std::to_string(i));
    try_out(target(), bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Every, FuzzCorpus, testing::ValuesIn(corpus()), name_of);
INSTANTIATE_TEST_SUITE_P(Every, FuzzMutations, testing::ValuesIn(all_batches()), name_of);

}  // namespace
}  // namespace weir::fuzz
