# A header as Doxygen reads it. Lines keep their numbers.
# The comment below "#pragma once" describes the file.
/^#pragma once$/,/^$/ {
  s|^#pragma once$|/// @file|
  s|^// |/// |
}
# A verb at the beginning of a comment is not the class of that name.
s|^\( */// \)Block |\1%Block |
