# SPDX-License-Identifier: Apache-2.0
# cmake -DOUTPUT=file.cc -DHEADER=header -DNAMESPACE=name -DENTRIES=constant=file,... -P Embed.cmake: writes a source file
# that defines each constant, declared in the header as a std::string_view, as the text of a file.
set(text "#include \"${HEADER}\"\n\nnamespace ${NAMESPACE} {\n")
string(REPLACE "," ";" entries "${ENTRIES}")
foreach(entry ${entries})
  string(REGEX MATCH "^([^=]+)=(.*)$" unused "${entry}")
  set(constant ${CMAKE_MATCH_1})
  file(READ ${CMAKE_MATCH_2} content)
  string(APPEND text "const std::string_view ${constant} = R\"embedded(${content})embedded\";\n")
endforeach()
file(WRITE ${OUTPUT} "${text}}  // namespace ${NAMESPACE}\n")
