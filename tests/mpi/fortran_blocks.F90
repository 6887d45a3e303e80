! SPDX-License-Identifier: Apache-2.0
! Collective writes and reads of a distributed array, every element compared. Compiled three times: with mpif.h
! (WITH_MPIFH), module mpi (WITH_MPI) and module mpi_f08 (WITH_F08).
program fortran_blocks
#if defined(WITH_F08)
  use mpi_f08
#elif defined(WITH_MPI)
  use mpi
#endif
  implicit none
#if defined(WITH_MPIFH)
  include 'mpif.h'
#endif
#if defined(WITH_F08)
  type(MPI_File) :: file
  type(MPI_Datatype) :: blocks
  type(MPI_Status) :: status
#else
  integer :: file, blocks, status(MPI_STATUS_SIZE)
#endif
  integer, parameter :: rows = 12, columns = 32
  integer(kind=MPI_OFFSET_KIND) :: displacement, position
  integer :: ierror, rank, ranks, i, j, elements, failures, all_failures
  integer :: sizes(2), subsizes(2), starts(2)
  integer, allocatable :: mine(:,:), back(:,:)
  character(len=1024) :: directory

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  call get_command_argument(1, directory)
  failures = 0
  ! Every rank has some rows of the array: its elements are not contiguous in the file.
  sizes = (/ rows * ranks, columns /)
  subsizes = (/ rows, columns /)
  starts = (/ rows * rank, 0 /)
  allocate(mine(rows, columns), back(rows, columns))
  do j = 1, columns
    do i = 1, rows
      mine(i, j) = (j - 1) * rows * ranks + rows * rank + i
    end do
  end do
  back = 0
  call MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_FORTRAN, MPI_INTEGER, blocks, ierror)
  call MPI_Type_commit(blocks, ierror)
  call MPI_File_open(MPI_COMM_WORLD, trim(directory) // '/fortran', MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, &
                     file, ierror)
  displacement = 0
  call MPI_File_set_view(file, displacement, MPI_INTEGER, blocks, 'native', MPI_INFO_NULL, ierror)
  call MPI_Type_free(blocks, ierror)
  call MPI_File_write_all(file, mine, rows * columns, MPI_INTEGER, status, ierror)
  if (ierror /= MPI_SUCCESS) failures = failures + 1
  call MPI_Get_count(status, MPI_INTEGER, elements, ierror)
  if (elements /= rows * columns) failures = failures + 1
  call MPI_File_get_position(file, position, ierror)
  if (position /= rows * columns) failures = failures + 1
  displacement = 0
  call MPI_File_read_at_all(file, displacement, back, rows * columns, MPI_INTEGER, status, ierror)
  if (any(back /= mine)) failures = failures + 1
  ! The array is in the file in its natural order.
  call MPI_File_set_view(file, displacement, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL, ierror)
  position = rank * rows * columns
  call MPI_File_read_at_all(file, position, back, rows * columns, MPI_INTEGER, status, ierror)
  do j = 1, columns
    do i = 1, rows
      if (back(i, j) /= rank * rows * columns + (j - 1) * rows + i) failures = failures + 1
    end do
  end do
  call MPI_File_close(file, ierror)
  call MPI_Allreduce(failures, all_failures, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierror)
  if (rank == 0 .and. all_failures == 0) print *, 'every element was written and read'
  call MPI_Finalize(ierror)
  if (all_failures /= 0) stop 1
end program fortran_blocks
