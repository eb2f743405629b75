<?php
// What a user of PHP's extension does: connect, write, read, and survive a lost connection.
use MongoDB\Driver\{BulkWrite, Command, Manager, Query};

$manager = new Manager($argv[1]);

$writes = new BulkWrite();
foreach ([1, 2] as $id) {
    $writes->insert(['_id' => $id, 'x' => $id]);
}
$writes->update(['_id' => 1], ['$inc' => ['x' => 10]]);
$writes->delete(['_id' => 2]);
$manager->executeBulkWrite('db.things', $writes);

$manager->executeCommand('admin', new Command([
    'configureFailPoint' => 'failCommand',
    'mode' => ['times' => 1],
    'data' => ['failCommands' => ['insert'], 'closeConnection' => true],
]));
$again = new BulkWrite();
$again->insert(['_id' => 3, 'x' => 3, 'text' => str_repeat('x', 100_000)]);
$manager->executeBulkWrite('db.things', $again);

$found = $manager->executeQuery('db.things', new Query([], ['projection' => ['text' => 0], 'sort' => ['_id' => 1]]))->toArray();
$status = $manager->executeCommand('admin', new Command(['connectionStatus' => 1]))->toArray()[0];
echo json_encode([
    'found' => $found,
    'users' => $status->authInfo->authenticatedUsers,
    'version' => phpversion('mongodb'),
]), "\n";
