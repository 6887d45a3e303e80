# SPDX-License-Identifier: Apache-2.0
# Finds Open MPI and MPICH beside each other, without the alternatives system: Debian names their compilers
# mpicc.openmpi and mpicc.mpich. Elsewhere plain mpicc is used for the MPI that it belongs to.
#
# For MPI in openmpi, mpich: TUTTI_<MPI>_CC (empty: not installed) and the target tutti_<MPI> with include folders and
# the library.
find_program(TUTTI_MPICC mpicc)
mark_as_advanced(TUTTI_MPICC)

function(tutti_find_mpi name answer_option words)
  find_program(TUTTI_${name}_CC mpicc.${name})
  mark_as_advanced(TUTTI_${name}_CC)
  set(compiler ${TUTTI_${name}_CC})
  if(NOT compiler AND TUTTI_MPICC)
    set(compiler ${TUTTI_MPICC})
  endif()
  if(NOT compiler)
    return()
  endif()
  execute_process(COMMAND ${compiler} ${answer_option} OUTPUT_VARIABLE line ERROR_QUIET RESULT_VARIABLE status
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT status EQUAL 0 OR NOT line MATCHES "${words}")
    return()
  endif()
  separate_arguments(line UNIX_COMMAND "${line}")
  set(includes)
  set(folders)
  set(libraries)
  foreach(word ${line})
    if(word MATCHES "^-I(.+)")
      list(APPEND includes ${CMAKE_MATCH_1})
    elseif(word MATCHES "^-L(.+)")
      list(APPEND folders ${CMAKE_MATCH_1})
    elseif(word MATCHES "^-l(mpi|mpich)$")
      list(APPEND libraries ${CMAKE_MATCH_1})
    endif()
  endforeach()
  find_library(TUTTI_${name}_LIBRARY NAMES ${libraries} HINTS ${folders})
  mark_as_advanced(TUTTI_${name}_LIBRARY)
  if(NOT TUTTI_${name}_LIBRARY)
    return()
  endif()
  add_library(tutti_${name} INTERFACE)
  target_include_directories(tutti_${name} SYSTEM INTERFACE ${includes})
  # The C++ bindings, which MPI 3 has removed, would need another library.
  target_compile_definitions(tutti_${name} INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  target_link_libraries(tutti_${name} INTERFACE ${TUTTI_${name}_LIBRARY})
  set(TUTTI_${name}_COMPILER ${compiler} PARENT_SCOPE)
endfunction()

# Open MPI answers --showme, MPICH -show.
tutti_find_mpi(openmpi --showme "openmpi|-lmpi( |$)")
tutti_find_mpi(mpich -show "-lmpich|mpich")
