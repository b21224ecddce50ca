// SPDX-License-Identifier: Apache-2.0
// Copies rows of units of 4, 8 or 16 bytes (`Unit` is uint, uvec2 or uvec4). copy_rows_4.inc and its like are made of
// it; region_shader.hpp says what the numbers are.
#version 450
#extension GL_EXT_buffer_reference : require

layout(local_size_x = 256) in;
layout(buffer_reference, std430, buffer_reference_align = ALIGNMENT) readonly buffer Source { Unit units[]; };
layout(buffer_reference, std430, buffer_reference_align = ALIGNMENT) writeonly buffer Target { Unit units[]; };
layout(push_constant) uniform Numbers {
  Target target;
  Source source;
  uint all, row, inner, middle;
  int target_inner, target_middle, target_outer;
  int source_first, source_inner, source_middle, source_outer;
} the;

void main() {
  const uint step = gl_NumWorkGroups.x * gl_WorkGroupSize.x;
  for (uint i = gl_GlobalInvocationID.x; i < the.all; i += step) {
    const uint rows = i / the.row, unit = i - rows * the.row;
    const uint lines = rows / the.inner, a = rows - lines * the.inner;
    const uint c = lines / the.middle, b = lines - c * the.middle;
    const int to = int(a) * the.target_inner + int(b) * the.target_middle + int(c) * the.target_outer;
    const int from = int(a) * the.source_inner + int(b) * the.source_middle + int(c) * the.source_outer;
    the.target.units[to + int(unit)] = the.source.units[the.source_first + from + int(unit)];
  }
}
