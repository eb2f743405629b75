# What a user of the Perl driver does: connect, write, read, and survive a lost connection.
use strict;
use warnings;
use JSON::PP;
use MongoDB;
use Tie::IxHash;

my $client = MongoDB->connect($ARGV[0]);
my $things = $client->ns('db.things');
$things->insert_many([ { _id => 1, x => 1 }, { _id => 2, x => 2 } ]);
$things->update_one({ _id => 1 }, { '$inc' => { x => 10 } });
$things->delete_one({ _id => 2 });

my $admin = $client->db('admin');
$admin->run_command(Tie::IxHash->new(
    configureFailPoint => 'failCommand',
    mode               => { times => 1 },
    data               => { failCommands => ['insert'], closeConnection => BSON::Bool->true },
));
$things->insert_one({ _id => 3, x => 3, text => 'x' x 100_000 });

my @found = $things->find({}, { projection => { text => 0 }, sort => { _id => 1 } })->all;
my $status = $admin->run_command([ connectionStatus => 1 ]);
print JSON::PP->new->encode({
    found   => [ map { { _id => $_->{_id} + 0, x => $_->{x} + 0 } } @found ],
    users   => $status->{authInfo}{authenticatedUsers},
    version => $MongoDB::VERSION,
}), "\n";
