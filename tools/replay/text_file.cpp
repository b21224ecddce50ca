// SPDX-License-Identifier: Apache-2.0
#include "replay/text_file.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <system_error>

#if WEIR_HAS_ZLIB
#include <zlib.h>
#endif

namespace weir::replay {
namespace {

constexpr std::size_t piece = std::size_t{1} << 20;
constexpr std::size_t most = std::size_t{8} << 30;  // because a few bytes of gzip may unpack to terabytes

[[noreturn]] void refuse(const std::string& path) {
  throw std::system_error(errno != 0 ? errno : EIO, std::generic_category(), path);
}

void check_size(const std::string& path, const std::string& text) {
  if (text.size() > most) throw std::runtime_error(path + ": more than 8 GiB of text");
}

}  // namespace

#if WEIR_HAS_ZLIB

TextFile read_text_file(const std::string& path) {
  struct Close {
    void operator()(gzFile_s* file) const { gzclose_r(file); }
  };
  errno = 0;
  const std::unique_ptr<gzFile_s, Close> file(gzopen(path.c_str(), "rbe"));
  if (!file) refuse(path);
  TextFile out;
  for (std::size_t had = 0;; had = out.text.size()) {
    out.text.resize(had + piece);
    const int got = gzread(file.get(), out.text.data() + had, static_cast<unsigned>(piece));
    out.text.resize(had + static_cast<std::size_t>(got > 0 ? got : 0));
    check_size(path, out.text);
    if (got > 0) continue;
    int error = Z_OK;
    const char* const message = gzerror(file.get(), &error);
    if (error == Z_ERRNO) refuse(path);
    out.torn = error == Z_BUF_ERROR;
    if (got < 0 && !out.torn) throw std::runtime_error(path + ": " + message);
    return out;
  }
}

#else

TextFile read_text_file(const std::string& path) {
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  errno = 0;
  const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "rbe"));
  if (!file) refuse(path);
  TextFile out;
  for (std::size_t had = 0, got = piece; got == piece; had = out.text.size()) {
    out.text.resize(had + piece);
    got = std::fread(out.text.data() + had, 1, piece, file.get());
    out.text.resize(had + got);
    check_size(path, out.text);
  }
  if (std::ferror(file.get())) refuse(path);
  if (out.text.starts_with("\x1f\x8b")) {
    throw std::runtime_error(path +
                             ": is compressed, and this program was built without zlib: gunzip it first");
  }
  return out;
}

#endif

}  // namespace weir::replay
