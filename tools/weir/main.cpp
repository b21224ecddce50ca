// SPDX-License-Identifier: Apache-2.0
// The program weir: it shows what this machine has, and whether that works.

#include "commands.hpp"

int main(int argc, char** argv) { return weir::cli::run({argv + 1, argv + argc}, {"/proc/self/exe"}); }
